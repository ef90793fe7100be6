"""Labels beside the scores they are about: for each task and evaluator, what people say and what it said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from gavel.agreement.bootstrap import Resampling
from gavel.alignment.labels import Reference, references
from gavel.alignment.population import rows_by_id, scored_records, scored_rubrics
from gavel.judge.rubric import Rubric
from gavel.store.files import Store
from gavel.suite import Suite

SCORE = "score"
"""The field made of the dimensions, as in scores: their weighted mean."""

PUBLISHED = "(published)"
"""Stands for whoever judged a record, where a task's scores are of several evaluators."""

_RECORD = (
    *("conversation_id", "language", "response", "evaluator", "model", "agent_version"),
    *("confidence", "field_confidence", "score"),
)


@dataclass(frozen=True)
class Drawn:
    """A record of the sample: its round and chance, and its day."""

    round: int
    probability: float
    day: str


Cell = tuple[int, ...]
"""Days that the same rounds of the sample could draw from, by those rounds."""


@dataclass(frozen=True)
class Evidence:
    """One evaluator's scores of a task with labels.

    `drawn` are the records of the task's sample, `frames` the days that each round was drawn from, `scored` the
    number of records that the evaluator scored, by day.
    """

    suite: Suite
    rubric: Rubric
    evaluator: str
    references: Mapping[str, Mapping[str, Reference]]
    records: Mapping[str, Mapping[str, Any]]
    drawn: Mapping[str, Drawn]
    frames: Mapping[int, frozenset[str]]
    scored: Mapping[str, int]

    @cached_property
    def resampling(self) -> Resampling:
        """How intervals are made."""
        return Resampling.of(self.suite.alignment)

    @property
    def fields(self) -> list[str]:
        """The fields with labels: the score, dimensions, labels."""
        return [name for name in (SCORE, *self.rubric.columns) if self.references.get(name)]

    @property
    def numbers(self) -> list[str]:
        """The fields that are numbers."""
        return [name for name in self.fields if self.classes(name) is None]

    def classes(self, field: str) -> Sequence[str] | None:
        """The values of a label; None for a number."""
        return self.rubric.label_values.get(field)

    def row_ids(self, field: str) -> list[str]:
        """The records of this evaluator with labels of `field`, in order."""
        return [row_id for row_id in self.references[field] if row_id in self.records]

    def given(self, field: str, row_id: str) -> Any:
        """What the evaluator says; None for an unresolved record."""
        return self.records[row_id][field]

    def settled(self, field: str) -> list[str]:
        """The records of which both people and evaluator say something, people without a tie."""
        return [
            row_id
            for row_id in self.row_ids(field)
            if self.references[field][row_id].value is not None
            and self.given(field, row_id) is not None
        ]

    def confidence(self, field: str, row_id: str) -> float | None:
        """How sure the evaluator is of the field, or where that is not known by field, of the whole verdict."""
        record = self.records[row_id]
        if record["field_confidence"] and field in self.rubric.columns:
            return self._sureness(field, row_id).get("confidence")
        sure: float | None = record["confidence"]
        return sure

    def expected(self, field: str, row_id: str) -> float | None:
        """The mean of the scores that could have been, weighted by their probabilities; None where unknown."""
        return self._sureness(field, row_id).get("expected")

    def _sureness(self, field: str, row_id: str) -> Mapping[str, Any]:
        known = self.records[row_id]["field_confidence"] or ()
        return next((each for each in known if each["field"] == field), {})

    def clusters(self, row_ids: Sequence[str]) -> list[str]:
        """The conversation of each record; one without is alone."""
        return [self.records[row_id]["conversation_id"] or row_id for row_id in row_ids]

    def weights(self, field: str, row_ids: Sequence[str]) -> tuple[list[float] | None, str | None]:
        """How many records each of `row_ids`, labelled in `field`, stands for; and a note.

        None where some are not of the sample. A round is drawn from what the rounds before it left. So it stands
        for all records of its days together with theirs, each of which then counts once (Des Raj's estimator,
        1956), and for those of its records that nobody has labelled the others of the round do. Of several rounds,
        each counts by the number of its records here, so that the more are labelled the less a small first
        round says. Days that later rounds alone could draw from are a population of their own.
        """
        known = [row_id for row_id in row_ids if row_id in self.drawn]
        if not known:
            return None, None
        if len(known) < len(row_ids):
            return None, (
                f"{len(row_ids) - len(known)} of {len(row_ids)} labelled records are not of the sample: unweighted"
            )
        weights = [0.0] * len(row_ids)
        counts = self._rounds(field)
        without: set[int] = set()
        for cell, places in self._by_cell(row_ids).items():
            here = Counter(self.drawn[row_ids[place]].round for place in places)
            size = sum(n for day, n in self.scored.items() if self._cell(day) == cell)
            for round_, count in here.items():
                shares = [self._share(field, row_ids[place], round_) for place in places]
                for place, share in zip(places, shares, strict=True):
                    part = count / len(places) * share / sum(shares)
                    weights[place] += (size or len(places)) * part
            for earlier in cell:
                drawn, labelled = counts.get((earlier, cell), (0, 0))
                if earlier < max(here) and drawn and not labelled:
                    without.add(earlier)
        named = ", ".join(map(str, sorted(without)))
        note = f"round {named} has no labels of it, so nothing speaks for its records"
        return weights, note if without else None

    def covered(self, row_ids: Sequence[str]) -> set[str]:
        """The days that the sample with `row_ids` was drawn from."""
        cells = self._by_cell(row_ids)
        return {day for day in self.scored if self._cell(day) in cells}

    def _by_cell(self, row_ids: Sequence[str]) -> dict[Cell, list[int]]:
        found: dict[Cell, list[int]] = {}
        for place, row_id in enumerate(row_ids):
            found.setdefault(self._cell(self.drawn[row_id].day), []).append(place)
        return found

    @cached_property
    def _cells(self) -> Mapping[str, Cell]:
        """The rounds that could draw from each day, of the days that any could."""
        rounds: dict[str, Cell] = {}
        for round_, days in sorted(self.frames.items()):
            rounds |= {day: (*rounds.get(day, ()), round_) for day in days}
        return rounds

    def _cell(self, day: str) -> Cell:
        return self._cells.get(day, ())

    @cached_property
    def _counted(self) -> dict[str, Mapping[tuple[int, Cell], tuple[int, int]]]:
        return {}

    def _rounds(self, field: str) -> Mapping[tuple[int, Cell], tuple[int, int]]:
        """By round and cell the number of records drawn, and of those with a label of `field`."""
        if field not in self._counted:
            labelled = self.references.get(field, {})
            counts: dict[tuple[int, Cell], tuple[int, int]] = {}
            for row_id, drawn in self.drawn.items():
                key = drawn.round, self._cell(drawn.day)
                every, read = counts.get(key, (0, 0))
                counts[key] = every + 1, read + (row_id in labelled)
            self._counted[field] = counts
        return self._counted[field]

    def _share(self, field: str, row_id: str, round_: int) -> float:
        """How many records this one stands for in the estimate that ends with `round_`."""
        own = self.drawn[row_id]
        if own.round > round_:
            return 0.0
        drawn, labelled = self._rounds(field)[own.round, self._cell(own.day)]
        return drawn / labelled / (own.probability if own.round == round_ else 1.0)


def published(gathered: Sequence[Evidence]) -> Iterator[Evidence]:
    """Of every task that several evaluators scored, all its scores as one: what is published."""
    by_task: dict[str, list[Evidence]] = {}
    for found in gathered:
        by_task.setdefault(found.rubric.task, []).append(found)
    for several in by_task.values():
        if len(several) > 1:
            records = {row_id: row for found in several for row_id, row in found.records.items()}
            scored = sum((Counter(found.scored) for found in several), Counter[str]())
            yield replace(several[0], evaluator=PUBLISHED, records=records, scored=scored)


def evidence(suite: Suite, store: Store, labels: pa.Table, sample: pa.Table) -> Iterator[Evidence]:
    """The evidence of every task and of every evaluator that scored labelled records of it."""
    rubrics = scored_rubrics(suite, store)
    found = references(labels, suite.alignment.adjudicators)
    drawn: dict[str, dict[str, Drawn]] = {task: {} for task in rubrics}
    frames: dict[str, dict[int, frozenset[str]]] = {task: {} for task in rubrics}
    for row in sample.to_pylist():
        task, round_ = row["task"], row["round"]
        if task in drawn:
            chance = row["inclusion_probability"]
            drawn[task][row["row_id"]] = Drawn(round_, chance, row["day"])
            if round_ not in frames[task]:
                frames[task][round_] = frozenset(row["days"])
    for task, rubric in rubrics.items():
        own = {field: items for (of, field), items in found.items() if of == task}
        own[SCORE] = _scores(rubric, own)
        row_ids = sorted({row_id for items in own.values() for row_id in items})
        if not row_ids:
            continue
        grouping = [name for name in suite.alignment.bias_by if name not in _RECORD]
        columns = dict.fromkeys([*_RECORD, *rubric.columns, *grouping])
        records = rows_by_id(store, task, list(columns), row_ids)
        counted = scored_records(store, task)
        for evaluator in sorted({row["evaluator"] for row in records.values()}):
            scored = {k: row for k, row in records.items() if row["evaluator"] == evaluator}
            sizes = {day: n for (name, day), n in counted.items() if name == evaluator}
            yield Evidence(suite, rubric, evaluator, own, scored, drawn[task], frames[task], sizes)


def _scores(rubric: Rubric, given: Mapping[str, Mapping[str, Reference]]) -> dict[str, Reference]:
    """The scores that follow from the labelled dimensions.

    As in scores, it is the weighted mean of the dimensions present; those that are not optional have to be.
    """
    needed = [d.name for d in rubric.dimensions if not d.optional]
    if not needed or any(name not in given for name in needed):
        return {}
    scores: dict[str, Reference] = {}
    for row_id in given[needed[0]]:
        present = {
            d.name: given[d.name][row_id]
            for d in rubric.dimensions
            if row_id in given.get(d.name, {})
        }
        if any(name not in present for name in needed):
            continue
        people = set.intersection(*(set(present[name].by_annotator) for name in needed))
        own = {
            annotator: _weighted(
                rubric,
                {
                    name: found.by_annotator[annotator]
                    for name, found in present.items()
                    if annotator in found.by_annotator
                },
            )
            for annotator in sorted(people)
        }
        value = _weighted(rubric, {name: found.value for name, found in present.items()})
        scores[row_id] = Reference(value, present[needed[0]].settled, own)
    return scores


def _weighted(rubric: Rubric, values: Mapping[str, Any]) -> float:
    weights = {d.name: d.weight for d in rubric.dimensions if d.name in values}
    return float(sum(weights[n] * values[n] for n in weights) / sum(weights.values()))
