"""Merging verdicts into scores: exactly one row a record, joined by row_id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gavel.judge.opinions import first_tier, read_verdicts
from gavel.judge.panel import panel_name
from gavel.judge.rubric import Dimension, Rubric
from gavel.judge.tables import score_schema
from gavel.settings.judging import Task
from gavel.store.tables import quoted, session, write_query
from gavel.suite import Suite

# Columns of a record that only one shard has.
_SHARD_COLUMNS = ("shard", "shard_row")


@dataclass(frozen=True)
class Merged:
    """The counts that the accounting of a day rests on; `repaired` + `unresolved` were invalid at first."""

    records: int
    valid: int
    repaired: int
    unresolved: int


def merge_scores(
    suite: Suite,
    rubric: Rubric,
    shards: Sequence[Path],
    verdicts: Sequence[Path],
    regenerated: Sequence[Path],
    out: Path,
    opinions: Sequence[Path] = (),
) -> Merged:
    """Write one row a record of `shards`: its fields, its winning verdict, its score.

    The winner is the first valid verdict of the task's evaluator, else its last attempt, whose record is
    `unresolved` and has null in every dimension, label and score. Where `opinions` of other evaluators are given,
    a valid verdict of the larger evaluator goes before, and a panel's fields are what its valid verdicts say
    together; the rest of its row is that of the member named earliest. `tier` says who decided.

    `score` is sum(w*s)/sum(w) over the dimensions present; `score_normalised` is the same mean of normalised
    dimensions (`suite.quality.normalise`), by evaluator: z-scores with the sample standard deviation over the
    day's valid records, null where it is 0 or undefined, or min-max over the rubric's bounds.
    """
    record = [f for f in pq.read_schema(shards[0]) if f.name not in _SHARD_COLUMNS]
    fields = [field.name for field in record]
    settings = suite.settings_of(rubric.task) if opinions else Task()
    panel = settings.panel
    judged = [*rubric.columns, "confidence"]
    said = {name: f'v."{name}"' for name in (*judged, "evaluator", "config_hash")}
    if panel is not None:
        # What a panel says together is not what any one of its verdicts says.
        members = ", ".join(f"'{name}'" for name in panel.members)
        own_name = suite.evaluator_of(rubric.task)[0]
        jointly = {name: f'p."{name}"' for name in judged}
        jointly["evaluator"] = f"'{panel_name([own_name, *panel.members])}'"
        jointly["config_hash"] = (
            f"(SELECT md5(string_agg(DISTINCT config_hash, ' ' ORDER BY config_hash) || '{panel.aggregate}') "
            "FROM attempts WHERE seat >= 0)"
        )
        said = {name: f"if(w.tier = 'panel', {jointly[name]}, {said[name]})" for name in said}
    seats = f"coalesce(list_position([{members}], evaluator), -1)" if panel is not None else "-1"
    others = (
        f"SELECT *, {seats} AS seat FROM read_parquet({quoted(*opinions)})"
        if opinions
        else "SELECT 0 AS seat, NULL::VARCHAR[] AS because WHERE false"
    )
    # These are one evaluator's own, also where a panel decides.
    said |= {name: f'v."{name}"' for name in ("rationale", "field_confidence")}
    judged += ["rationale", "field_confidence"]
    own = ", ".join(f"CASE WHEN v.status = 'valid' THEN {said[n]} END AS \"{n}\"" for n in judged)
    kept = ", ".join(f'r."{name}"' for name in fields)
    first = "first" if panel is None else "panel"
    query = f"""
        WITH attempts AS (
            SELECT *, 0 AS seat FROM read_parquet({quoted(*verdicts)})
            UNION ALL BY NAME
            SELECT *, 0 AS seat FROM read_parquet({quoted(*regenerated)})
            UNION ALL BY NAME
            {others}
        ), winner AS (
            SELECT row_id,
                   max(attempt) FILTER (seat = 0) AS attempts,
                   coalesce(first(because) FILTER (seat = -1), []) AS escalated,
                   arg_min((seat, attempt), {_PRECEDENCE}) AS best
            FROM attempts GROUP BY row_id
        ), decided AS (
            SELECT row_id, attempts, escalated, best[1] AS seat, best[2] AS attempt,
                   if(best[1] = -1, 'second', '{first}') AS tier
            FROM winner
        ), scored AS (
            SELECT {kept}, {own}, {said["evaluator"]} AS evaluator, {said["config_hash"]} AS config_hash,
                   v.* EXCLUDE (row_id, shard, shard_row, status, seat, because, evaluator, config_hash,
                                {", ".join(f'"{name}"' for name in judged)}),
                   w.attempts, w.attempts > 1 AS regenerated,
                   if(v.status = 'valid', 'valid', 'unresolved') AS status,
                   w.tier, w.escalated, p.disagreement,
                   if(w.tier = 'panel', coalesce(p.votes, 0), (v.status = 'valid')::INTEGER) AS votes
            FROM read_parquet({quoted(*shards)}) r
            JOIN decided w USING (row_id)
            JOIN attempts v ON v.row_id = r.row_id AND v.seat = w.seat AND v.attempt = w.attempt
            LEFT JOIN panel p ON p.row_id = r.row_id
        )
        SELECT *, {_weighted(rubric.dimensions, "none")} AS score,
               {_weighted(rubric.dimensions, suite.quality.normalise)} AS score_normalised
        FROM scored ORDER BY source, source_file, source_line, row_id
    """
    with session(suite.memory_limit, spill=out.parent / ".spill") as connection:
        # Sums depend on the order of their terms in the last bits: with one thread it is always the same.
        connection.execute("SET threads = 1")
        chain = [*verdicts, *regenerated] if panel is not None else []
        connection.register("panel", _panel(rubric, settings, chain, opinions))
        schema = score_schema(rubric, record)
        write_query(out, connection, query, schema)
        counts = connection.execute(
            """
            SELECT count(*), count(*) FILTER (status = 'valid' AND NOT regenerated),
                   count(*) FILTER (status = 'valid' AND regenerated), count(*) FILTER (status = 'unresolved')
            FROM read_parquet(?)
            """,
            [str(out)],
        ).fetchall()[0]
    return Merged(*counts)


_PRECEDENCE = """(
    status <> 'valid',
    if(status = 'valid', seat, if(seat = 0, 0, 1)),
    if(status = 'valid', attempt, -attempt)
)"""
"""Valid before invalid; the larger evaluator's (seat -1), the task's own (0), the panel's members in order;
of valid ones the first attempt, of invalid ones the last of the task's own."""


def _panel(
    rubric: Rubric, settings: Task, chain: Sequence[Path], opinions: Sequence[Path]
) -> pa.Table:
    """What the panel says of each record; no row where there is no panel."""
    if not chain:
        columns = [("row_id", pa.string()), ("votes", pa.int32()), ("disagreement", pa.float64())]
        return pa.schema(columns).empty_table()
    own, others = read_verdicts(rubric, chain), read_verdicts(rubric, opinions)
    return first_tier(rubric, settings, own, others).to_arrow()


def _weighted(dimensions: Sequence[Dimension], normalise: str) -> str:
    """SQL of the weighted mean of the dimensions present, as they are or normalised; null where none is.

    It lies among their values: where rounding takes it beyond (weights 0.6, 0.3 and 0.1 of three ones), it is the
    nearest of them.
    """
    values, terms, weights = [], [], []
    for dimension in dimensions:
        value = f'"{dimension.name}"'
        if normalise == "zscore":
            window = "OVER (PARTITION BY evaluator)"
            value = (
                f"(({value} - avg({value}) {window}) / nullif(stddev_samp({value}) {window}, 0))"
            )
        elif normalise == "minmax":
            value = f"(({value} - {dimension.min}) / {dimension.max - dimension.min})"
        values.append(value)
        terms.append(f"coalesce({dimension.weight} * {value}, 0)")
        weights.append(f"if({value} IS NULL, 0, {dimension.weight})")
    mean = f"({' + '.join(terms)}) / nullif({' + '.join(weights)}, 0)"
    among = ", ".join(values)
    # least and greatest leave nulls out: no dimension, no score.
    return f"if({mean} IS NULL, NULL, least(greatest({mean}, least({among})), greatest({among})))"
