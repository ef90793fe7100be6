"""Which records people are asked to label: stratified at random, with the chance each had of being drawn."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gavel.alignment.population import columns_of, read_scores, score_files, scored_rubrics
from gavel.alignment.schema import SAMPLE
from gavel.errors import LabelError
from gavel.judge.rubric import Rubric
from gavel.settings.trust import Sampling
from gavel.store.files import Store
from gavel.suite import Suite

MISSING = "(none)"
"""The stratum of records without a value, such as the label of an unresolved record."""


def sample(suite: Suite, store: Store) -> pa.Table:
    """The sample of every task: the rounds drawn before as they stand, and the present round.

    Raises:
        LabelError: a column of `strata` is none of the scores'.
    """
    path = store.table("alignment/sample")
    kept = pq.read_table(path).cast(SAMPLE) if path.exists() else SAMPLE.empty_table()
    settings = suite.alignment.sample
    tables = [kept]
    for task, rubric in scored_rubrics(suite, store).items():
        own = kept.filter(pc.field("task") == task)
        if settings.round not in set(own["round"].to_pylist()):
            tables.append(_round(settings, store, rubric, set(own["row_id"].to_pylist())))
    return pa.concat_tables(tables)


def changed_settings(suite: Suite, table: pa.Table) -> list[str]:
    """A sentence for each task whose present round was drawn by other settings."""
    settings = suite.alignment.sample
    drawn = {
        row["task"]: row["settings_hash"]
        for row in table.to_pylist()
        if row["round"] == settings.round
    }
    return [
        f"{task}: alignment.sample has changed since round {settings.round} was drawn, which stays as it "
        f"is; set round: {settings.round + 1} to draw further records"
        for task, known in sorted(drawn.items())
        if known != settings_hash(settings)
    ]


def missed_strata(suite: Suite, store: Store, table: pa.Table) -> list[str]:
    """A sentence for each task with strata of which no round holds a record: no figure speaks for those."""
    settings = suite.alignment.sample
    told = []
    for task, rubric in scored_rubrics(suite, store).items():
        held = {row["stratum"] for row in table.to_pylist() if row["task"] == task}
        there = _by_stratum(settings, store, rubric)
        if held and (missed := sorted(there.keys() - held)):
            names = ", ".join(missed[:5]) + (" and others" if len(missed) > 5 else "")
            told.append(
                f"{task}: {len(missed)} of {len(there)} strata are not in the sample ({names}), so no figure "
                f"speaks for them; set round: {settings.round + 1} and size: {max(settings.size, 10 * len(there))}"
            )
    return told


def settings_hash(settings: Sampling) -> str:
    """16 hex digits of everything that determines a draw."""
    content = orjson.dumps(settings.model_dump(), option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(content).hexdigest()[:16]


def allocate(sizes: Mapping[str, int], wanted: int, allocation: str) -> dict[str, int]:
    """How many of `wanted` each stratum gives; together min(wanted, all), none more than it has.

    `equal`: the same of each, what a small stratum lacks is shared among the others. `proportional`: by
    size, largest remainders first.
    """
    wanted = min(wanted, sum(sizes.values()))
    if allocation == "proportional":
        exact = {name: wanted * size / sum(sizes.values()) for name, size in sizes.items() if size}
        given = {name: int(share) for name, share in exact.items()}
        short = wanted - sum(given.values())
        order = sorted(exact, key=lambda name: (int(exact[name]) - exact[name], name))
        return {name: given[name] + (name in order[:short]) for name in sorted(given)}
    given = dict.fromkeys(sorted(sizes), 0)
    while wanted:
        open_ = [name for name in given if given[name] < sizes[name]]
        each = max(1, wanted // len(open_))
        for name in open_:
            more = min(each, sizes[name] - given[name], wanted)
            given[name] += more
            wanted -= more
    return given


def _round(settings: Sampling, store: Store, rubric: Rubric, drawn: set[str]) -> pa.Table:
    """The records of one round of one task, in the order in which people see them."""
    strata = _by_stratum(settings, store, rubric, drawn)
    days = [path.stem for path in score_files(store, rubric.task)]
    given = allocate(
        {name: len(rows) for name, rows in strata.items()}, settings.size, settings.allocation
    )
    # Seeded by the task and round too, or the same places would be drawn of each.
    seed = hashlib.sha256(f"{settings.seed} {rubric.task} {settings.round}".encode()).digest()
    random = np.random.default_rng(int.from_bytes(seed[:8]))
    chosen = [
        (rows[place], name, given[name] / len(rows))
        for name, rows in sorted(strata.items())
        for place in sorted(random.choice(len(rows), given.get(name, 0), replace=False).tolist())
    ]
    order = random.permutation(len(chosen)).tolist()
    core = min(settings.core, len(chosen))
    people = list(settings.annotators)
    rows = []
    for place, index in enumerate(order):
        row, stratum, probability = chosen[index]
        whole = place < core
        turn = [
            people[(place * settings.overlap + k) % len(people)] for k in range(settings.overlap)
        ]
        rows.append(
            {
                "row_id": row["row_id"],
                "task": rubric.task,
                "conversation_id": row["conversation_id"],
                "round": settings.round,
                "stratum": stratum,
                "inclusion_probability": probability,
                "day": row["day"],
                "days": days,
                "core": whole,
                "place": place + 1,
                "annotators": people if whole else turn,
                "settings_hash": settings_hash(settings),
            }
        )
    return pa.Table.from_pylist(rows, schema=SAMPLE)


def _by_stratum(
    settings: Sampling, store: Store, rubric: Rubric, drawn: Collection[str] = ()
) -> dict[str, list[dict[str, Any]]]:
    """The scored records by their stratum, without those that were `drawn` before.

    Of a row_id that several days have, the latest record: a label could not say which of them it is about.
    """
    by = _strata(settings, store, rubric)
    names = ["row_id", "conversation_id", *(c for c in by if c != "conversation_id")]
    scores = read_scores(store, rubric.task, names)
    cuts = {column: _thirds(scores[column]) for column in by if _is_number(scores[column].type)}
    strata: dict[str, list[dict[str, Any]]] = {}
    for row in {row["row_id"]: row for row in scores.to_pylist()}.values():
        if row["row_id"] not in drawn:
            strata.setdefault(_stratum(row, by, cuts), []).append(row)
    return strata


def _strata(settings: Sampling, store: Store, rubric: Rubric) -> list[str]:
    """The columns whose values make the strata."""
    if settings.strata is None:
        return [rubric.labels[0].name] if rubric.labels else ["language"]
    known = columns_of(store, rubric.task)
    # A suite has several tasks, and a label of one is no column of another.
    everywhere = set(rubric.columns)
    found = [name for name in settings.strata if name in known]
    for name in settings.strata:
        if (
            name not in known
            and name not in everywhere
            and not _elsewhere(store, name, rubric.task)
        ):
            raise LabelError(
                f"alignment.sample.strata: {name!r} is no column of any task's scores; accepted for "
                f"{rubric.task}: {', '.join(sorted(known))}"
            )
    return found


def _elsewhere(store: Store, column: str, task: str) -> bool:
    """Whether the scores of another task have the column."""
    others = {path.parent.parent.name for path in store.root.glob("*/scores/*.parquet")} - {task}
    return any(column in columns_of(store, other) for other in sorted(others))


def _stratum(row: Mapping[str, Any], by: Sequence[str], cuts: Mapping[str, Sequence[float]]) -> str:
    parts = []
    for column in by:
        value = row[column]
        if value is None:
            parts.append(f"{column}={MISSING}")
        elif isinstance(value, list):
            parts.append(f"{column}={'some' if value else 'none'}")
        elif column in cuts:
            third = int(np.searchsorted(cuts[column], value, side="right"))
            parts.append(f"{column}={('low', 'middle', 'high')[third]}")
        else:
            parts.append(f"{column}={value}")
    return ", ".join(parts) or "all"


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def _thirds(column: pa.ChunkedArray) -> list[float]:
    """The two values that cut the column in thirds."""
    values = column.drop_null().to_numpy()
    return [] if not len(values) else np.quantile(values, [1 / 3, 2 / 3]).tolist()
