"""The work list: which verdicts are invalid, and what became of them."""

from typing import Any

import pyarrow.parquet as pq
import pytest

from gavel.judge.tables import verdict_schema
from gavel.judge.worklist import Outcome, Sorted, outcome, write_invalid

from .conftest import TINY, Write, row_id

SCHEMA = verdict_schema(TINY)


def verdict(number: int, *faults: str, attempt: int = 1) -> dict[str, Any]:
    return {
        "row_id": row_id(number),
        "shard_row": number,
        "status": "invalid" if faults else "valid",
        "faults": list(faults),
        "attempt": attempt,
    }


def test_only_the_invalid_rows_are_listed_in_order_and_counted_by_fault(write: Write) -> None:
    rows = [
        verdict(3, "not_json"),
        verdict(2),
        verdict(1, "missing_field", "missing_field", "out_of_range"),
        verdict(0, "not_json"),
    ]
    verdicts = write("verdicts", SCHEMA, rows)
    out = verdicts.with_name("invalid.parquet")
    by_fault = {"not_json": 2, "missing_field": 1, "out_of_range": 1}
    found = write_invalid(verdicts, out)
    assert found == Sorted(valid=1, invalid=3, by_fault=by_fault)
    assert list(found.by_fault) == list(by_fault), "most frequent first"
    listed = pq.read_table(out)
    assert listed.schema == SCHEMA
    assert listed["row_id"].to_pylist() == [row_id(0), row_id(1), row_id(3)]


@pytest.mark.parametrize("rows", [[], [verdict(0)]], ids=["no record", "all valid"])
def test_with_nothing_invalid_the_list_is_an_empty_table(write: Write, rows: list[Any]) -> None:
    verdicts = write("verdicts", SCHEMA, rows)
    out = verdicts.with_name("invalid.parquet")
    assert write_invalid(verdicts, out) == Sorted(len(rows), 0, {})
    assert pq.read_table(out).schema == SCHEMA


BAD = "not_json"


@pytest.mark.parametrize(
    ("again", "expected"),
    [
        ([], Outcome(0, 2)),
        ([verdict(0, attempt=2), verdict(1, BAD, attempt=2)], Outcome(1, 1)),
        ([verdict(0, BAD, attempt=2), verdict(0, attempt=3), verdict(1, attempt=2)], Outcome(2, 0)),
        ([verdict(1, BAD, attempt=n) for n in (2, 3, 4)], Outcome(0, 2)),
        # Record 7 was not on the list: the sum is 3 then, which no check of two lets pass.
        ([verdict(0, attempt=2), verdict(7, attempt=2)], Outcome(2, 1)),
    ],
    ids=["not asked", "one repaired", "at another attempt", "never", "one too many"],
)
def test_each_record_is_repaired_or_unresolved(
    write: Write, again: list[Any], expected: Outcome
) -> None:
    work = write("invalid", SCHEMA, [verdict(0, BAD), verdict(1, BAD)])
    assert outcome(work, write("regenerated", SCHEMA, again)) == expected
