"""Merging verdicts into scores: exactly one row a record, joined by row_id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from gavel.judge.rubric import Dimension, Rubric
from gavel.judge.tables import score_schema
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
) -> Merged:
    """Write one row a record of `shards`: its fields, its winning verdict, its score.

    The winner is the first valid verdict, else the last attempt, whose record is `unresolved` and has
    null in every dimension, label and score. `score` is sum(w*s)/sum(w) over the dimensions present;
    `score_normalised` is the same mean of normalised dimensions (`suite.quality.normalise`), by evaluator:
    z-scores with the sample standard deviation over the day's valid records, null where it is 0 or
    undefined, or min-max over the rubric's bounds.
    """
    record = [f for f in pq.read_schema(shards[0]) if f.name not in _SHARD_COLUMNS]
    fields = [field.name for field in record]
    judged = [*rubric.columns, "rationale", "confidence", "field_confidence"]
    own = ", ".join(
        f'CASE WHEN v.status = \'valid\' THEN v."{name}" END AS "{name}"' for name in judged
    )
    kept = ", ".join(f'r."{name}"' for name in fields)
    normalised = _weighted(rubric.dimensions, suite.quality.normalise)
    query = f"""
        WITH attempts AS (
            FROM read_parquet({quoted(*verdicts)})
            UNION ALL BY NAME
            FROM read_parquet({quoted(*regenerated)})
        ), winner AS (
            SELECT row_id,
                   max(attempt) AS attempts,
                   arg_min(attempt, (status <> 'valid', if(status = 'valid', attempt, -attempt))) AS attempt
            FROM attempts GROUP BY row_id
        ), scored AS (
            SELECT {kept}, {own}, v.faults, v.fault_detail, v.raw_response, v.mended,
                   v.* EXCLUDE (row_id, shard, shard_row, faults, fault_detail, raw_response, mended, status,
                                {", ".join(f'"{name}"' for name in judged)}),
                   w.attempts, w.attempts > 1 AS regenerated,
                   if(v.status = 'valid', 'valid', 'unresolved') AS status
            FROM read_parquet({quoted(*shards)}) r
            JOIN winner w USING (row_id)
            JOIN attempts v ON v.row_id = r.row_id AND v.attempt = w.attempt
        )
        SELECT *, {_weighted(rubric.dimensions, "none")} AS score, {normalised} AS score_normalised
        FROM scored ORDER BY source, source_file, source_line, row_id
    """
    with session(suite.memory_limit, spill=out.parent / ".spill") as connection:
        # Sums depend on the order of their terms in the last bits: with one thread it is always the same.
        connection.execute("SET threads = 1")
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


def _weighted(dimensions: Sequence[Dimension], normalise: str) -> str:
    """SQL of the weighted mean of the dimensions present, as they are or normalised; null where none is."""
    terms, weights = [], []
    for dimension in dimensions:
        value = f'"{dimension.name}"'
        if normalise == "zscore":
            window = "OVER (PARTITION BY evaluator)"
            value = (
                f"(({value} - avg({value}) {window}) / nullif(stddev_samp({value}) {window}, 0))"
            )
        elif normalise == "minmax":
            value = f"(({value} - {dimension.min}) / {dimension.max - dimension.min})"
        terms.append(f"coalesce({dimension.weight} * {value}, 0)")
        weights.append(f"if({value} IS NULL, 0, {dimension.weight})")
    return f"({' + '.join(terms)}) / nullif({' + '.join(weights)}, 0)"
