"""The work list of regeneration: which verdicts are invalid, and what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from gavel.store.tables import count_rows, fetch, quoted, session, write_query


@dataclass(frozen=True)
class Sorted:
    """The verdicts of a shard: `valid` + `invalid` are all; a verdict counts under each of its faults."""

    valid: int
    invalid: int
    by_fault: dict[str, int]


@dataclass(frozen=True)
class Outcome:
    """The records of a work list after regeneration."""

    repaired: int
    unresolved: int


def write_invalid(verdicts: Path, out: Path) -> Sorted:
    """Write the invalid rows of `verdicts` to `out`, in order."""
    source = f"read_parquet({quoted(verdicts)})"
    invalid = f"FROM {source} WHERE status = 'invalid'"
    with session() as connection:
        rows = write_query(
            out, connection, f"{invalid} ORDER BY shard_row", pq.read_schema(verdicts)
        )
    valid = count_rows([verdicts], "status = 'valid'")
    faults = fetch(
        f"SELECT fault, count(*) FROM (SELECT row_id, unnest(list_distinct(faults)) AS fault {invalid}) "
        "GROUP BY fault ORDER BY count(*) DESC, fault"
    )
    return Sorted(valid, rows, dict(faults))


def outcome(work: Path, regenerated: Path) -> Outcome:
    """How many records have a valid verdict now and how many have none, joined by row_id.

    A record that was asked again without standing on the work list counts too, so that the sum tells.
    """
    counts = fetch(f"""
        SELECT count(*) FILTER (repaired), count(*) FILTER (NOT repaired)
        FROM (
            SELECT coalesce(bool_or(r.status = 'valid'), false) AS repaired
            FROM read_parquet({quoted(work)}) w
            FULL JOIN read_parquet({quoted(regenerated)}) r USING (row_id)
            GROUP BY row_id
        )
    """)[0]
    return Outcome(*counts)


def unresolved(tables: Sequence[Path]) -> int:
    """How many records of `tables`, all evaluators' verdicts on the same ones, have no valid verdict in any."""
    return int(
        fetch(f"""
            SELECT count(*) FROM (
                SELECT row_id FROM read_parquet({quoted(*tables)}, union_by_name = true)
                GROUP BY row_id HAVING NOT bool_or(status = 'valid')
            )
        """)[0][0]
    )
