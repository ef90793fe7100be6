"""The events of the small day of conftest.py, counted by hand."""

import datetime as dt
from pathlib import Path
from typing import Any

from gavel.report.audit import EVENTS, events

from .conftest import START, UTC

PUBLISHED = {
    "time": dt.datetime(2026, 11, 2, 12, tzinfo=UTC),
    "task": "chat",
    "detail": "8 rows",
    "run_id": "run-3",
}


def rows(verdicts: list[Path], regenerated: list[Path], kind: str) -> list[dict[str, Any]]:
    table = events("2026-11-02", {"chat": (verdicts, regenerated)}, [PUBLISHED])
    assert table.schema == EVENTS
    return [row for row in table.to_pylist() if row["kind"] == kind]


def test_one_failure_a_fault(verdicts: list[Path], regenerated: list[Path]) -> None:
    failures = rows(verdicts, regenerated, "validation_failure")
    assert [(f["row_id"], f["attempt"], f["code"]) for f in failures] == [
        ("r3", 1, "missing_field"),
        ("r3", 1, "out_of_range"),
        ("r4", 1, "not_json"),
        ("r5", 1, "not_json"),
        ("r4", 2, "truncated"),
        ("r5", 2, "truncated"),
        ("r5", 3, "refused"),
    ]
    assert failures[0]["detail"] == "clarity: 9"
    assert failures[0]["time"] == START + dt.timedelta(seconds=2)


def test_retries_are_counted_once_an_answer(verdicts: list[Path], regenerated: list[Path]) -> None:
    retries = rows(verdicts, regenerated, "retry")
    assert [(r["row_id"], r["request_hash"], r["code"], r["detail"]) for r in retries] == [
        ("r1", "q1", "http_429", "try 1"),
        ("r1", "q1", "timeout", "try 2"),
        (None, "q7", "http_429", "try 1"),
    ]


def test_one_regeneration_an_attempt(verdicts: list[Path], regenerated: list[Path]) -> None:
    again = rows(verdicts, regenerated, "regeneration")
    assert [(r["row_id"], r["attempt"], r["code"]) for r in again] == [
        ("r3", 2, "valid"),
        ("r4", 2, "invalid"),
        ("r5", 2, "invalid"),
        ("r4", 3, "valid"),
        ("r5", 3, "invalid"),
    ]
    assert {r["run_id"] for r in again} == {"run-2"}


def test_publication(verdicts: list[Path], regenerated: list[Path]) -> None:
    (event,) = rows(verdicts, regenerated, "publication")
    assert event == {
        **dict.fromkeys(EVENTS.names),
        **PUBLISHED,
        "day": "2026-11-02",
        "kind": "publication",
    }


def test_order_does_not_depend_on_the_input(verdicts: list[Path], regenerated: list[Path]) -> None:
    one = events("2026-11-02", {"a": (verdicts, []), "b": (verdicts, regenerated)}, [])
    two = events("2026-11-02", {"b": (verdicts[::-1], regenerated), "a": (verdicts, [])}, [])
    assert one.equals(two)
    assert one.column("time").to_pylist() == sorted(one.column("time").to_pylist())


def test_nothing_happened() -> None:
    assert events("2026-11-02", {"chat": ([], [])}, []).num_rows == 0
