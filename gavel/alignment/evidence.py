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
from gavel.alignment.population import rows_by_id, scored_rubrics
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
class Evidence:
    """One evaluator's scores of a task with labels. `drawn` has the round and probability of the task's sample."""

    suite: Suite
    rubric: Rubric
    evaluator: str
    references: Mapping[str, Mapping[str, Reference]]
    records: Mapping[str, Mapping[str, Any]]
    drawn: Mapping[str, tuple[int, float]]

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

    def weights(self, row_ids: Sequence[str]) -> tuple[list[float] | None, str | None]:
        """What undoes unequal chances of being drawn; None where some records are not of the sample; and a note.

        A round is drawn from what the rounds before it left. So it stands for all records together with theirs,
        each of which then counts once (Des Raj's estimator, 1956), and for those of its records that nobody has
        labelled the others of the round do. Of several rounds, each counts by the number of its records here, so
        that the more are labelled the less a small first round says.
        """
        known = [row_id for row_id in row_ids if row_id in self.drawn]
        if not known:
            return None, None
        if len(known) < len(row_ids):
            return None, (
                f"{len(row_ids) - len(known)} of {len(row_ids)} labelled records are not of the sample: unweighted"
            )
        here = Counter(self.drawn[row_id][0] for row_id in row_ids)
        weights = [0.0] * len(row_ids)
        for round_, count in here.items():
            shares = [self._share(row_id, round_) for row_id in row_ids]
            for place, share in enumerate(shares):
                weights[place] += count * share / sum(shares)
        without = [str(r) for r in self._rounds if r < max(here) and not self._rounds[r][1]]
        note = f"round {', '.join(without)} has no labels, so nothing speaks for its records"
        return weights, note if without else None

    @cached_property
    def _rounds(self) -> Mapping[int, tuple[int, int]]:
        """The number of records of each round of the sample, and of those with a label of any field."""
        labelled = {row_id for items in self.references.values() for row_id in items}
        drawn = Counter(round_ for round_, _ in self.drawn.values())
        read = Counter(of for row_id, (of, _) in self.drawn.items() if row_id in labelled)
        return {round_: (drawn[round_], read[round_]) for round_ in sorted(drawn)}

    def _share(self, row_id: str, round_: int) -> float:
        """How many records this one stands for in the estimate that ends with `round_`."""
        own, probability = self.drawn[row_id]
        if own > round_:
            return 0.0
        drawn, labelled = self._rounds[own]
        return drawn / labelled / (probability if own == round_ else 1.0)


def published(gathered: Sequence[Evidence]) -> Iterator[Evidence]:
    """Of every task that several evaluators scored, all its scores as one: what is published."""
    by_task: dict[str, list[Evidence]] = {}
    for found in gathered:
        by_task.setdefault(found.rubric.task, []).append(found)
    for several in by_task.values():
        if len(several) > 1:
            records = {row_id: row for found in several for row_id, row in found.records.items()}
            yield replace(several[0], evaluator=PUBLISHED, records=records)


def evidence(suite: Suite, store: Store, labels: pa.Table, sample: pa.Table) -> Iterator[Evidence]:
    """The evidence of every task and of every evaluator that scored labelled records of it."""
    rubrics = scored_rubrics(suite, store)
    found = references(labels, suite.alignment.adjudicators)
    drawn: dict[str, dict[str, tuple[int, float]]] = {task: {} for task in rubrics}
    for row in sample.to_pylist():
        if row["task"] in drawn:
            chance = int(row["round"]), float(row["inclusion_probability"])
            drawn[row["task"]][row["row_id"]] = chance
    for task, rubric in rubrics.items():
        own = {field: items for (of, field), items in found.items() if of == task}
        own[SCORE] = _scores(rubric, own)
        row_ids = sorted({row_id for items in own.values() for row_id in items})
        if not row_ids:
            continue
        grouping = [name for name in suite.alignment.bias_by if name not in _RECORD]
        columns = dict.fromkeys([*_RECORD, *rubric.columns, *grouping])
        records = rows_by_id(store, task, list(columns), row_ids)
        for evaluator in sorted({row["evaluator"] for row in records.values()}):
            scored = {k: row for k, row in records.items() if row["evaluator"] == evaluator}
            yield Evidence(suite, rubric, evaluator, own, scored, drawn[task])


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
