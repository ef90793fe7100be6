"""One small day, every figure of which can be worked out by hand.

Eight records r1..r8. r7 and r8 ask the same and share an answer. At first r3, r4 and r5 are
invalid; r3 is repaired by the second attempt, r4 by the third, r5 never. Answers arrive a second
apart.
"""

import datetime as dt
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

UTC = dt.UTC
START = dt.datetime(2026, 11, 2, 9, 0, tzinfo=UTC)

SCORES = pa.schema(
    [
        *((name, pa.string()) for name in ("row_id", "language", "agent_version", "intent")),
        *((name, pa.float64()) for name in ("helpfulness", "clarity", "score")),
        *((name, pa.string()) for name in ("status", "rubric_hash", "config_hash")),
    ]
)
VERDICTS = pa.schema(
    [
        ("row_id", pa.string()),
        ("attempt", pa.int32()),
        ("status", pa.string()),
        ("faults", pa.list_(pa.string())),
        ("fault_detail", pa.string()),
        ("request_hash", pa.string()),
        ("reused", pa.bool_()),
        ("retries", pa.list_(pa.string())),
        ("prompt_tokens", pa.int64()),
        ("completion_tokens", pa.int64()),
        ("cost_usd", pa.float64()),
        ("latency_ms", pa.float64()),
        ("evaluated_at", pa.timestamp("us", tz="UTC")),
        ("run_id", pa.string()),
    ]
)


def verdict(row: int, attempt: int, second: float, **other: Any) -> dict[str, Any]:
    return {
        "row_id": f"r{row}",
        "attempt": attempt,
        "status": "invalid" if other.get("faults") else "valid",
        "faults": [],
        "request_hash": f"q{min(row, 7)}",
        "reused": False,
        "retries": [],
        "prompt_tokens": 100,
        "completion_tokens": 10,
        "cost_usd": 0.5,
        "latency_ms": 100.0 * row,
        "evaluated_at": START + dt.timedelta(seconds=second),
        "run_id": "run-1" if attempt == 1 else "run-2",
        **other,
    }


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, pa.Schema, Sequence[dict[str, Any]]], Path]:
    def write_rows(name: str, schema: pa.Schema, rows: Sequence[dict[str, Any]]) -> Path:
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), path)
        return path

    return write_rows


@pytest.fixture
def scores(write: Callable[..., Path]) -> Path:
    common = {"status": "valid", "rubric_hash": "a", "config_hash": "b", "language": "en"}
    rows: list[dict[str, Any]] = [
        {"row_id": f"r{row}", "helpfulness": h, "clarity": c, "score": (h + c) / 2, **common}
        for row, h, c in [
            (1, 1.0, 4.0),
            (2, 2.0, 4.0),
            (3, 3.0, 4.0),
            (4, 4.0, 4.0),
            (6, 5.0, 4.0),
            (7, 5.0, 4.0),
            (8, 5.0, 4.0),
        ]
    ]
    for row in rows:
        row["intent"] = "order" if row["row_id"] in ("r1", "r2") else "advice"
    rows[0]["language"] = None
    rows[1]["language"] = "de"
    rows.append({"row_id": "r5", **common, "status": "unresolved"})
    return write("scores", SCORES, rows)


@pytest.fixture
def verdicts(write: Callable[..., Path]) -> list[Path]:
    """Two shards."""
    first = [
        verdict(1, 1, 0, retries=["http_429", "timeout"]),
        verdict(2, 1, 1, reused=True),
        verdict(3, 1, 2, faults=["out_of_range", "missing_field"], fault_detail="clarity: 9"),
        verdict(4, 1, 3, faults=["not_json"], fault_detail="line 1"),
    ]
    second = [
        verdict(5, 1, 4, faults=["not_json"], fault_detail="line 1"),
        verdict(6, 1, 5),
        verdict(7, 1, 6, retries=["http_429"]),
        verdict(8, 1, 6, retries=["http_429"], latency_ms=700.0),
    ]
    return [write("v0", VERDICTS, first), write("v1", VERDICTS, second)]


@pytest.fixture
def regenerated(write: Callable[..., Path]) -> list[Path]:
    """An hour later; and a shard with nothing to ask again."""
    again = [
        verdict(3, 2, 3600),
        verdict(4, 2, 3601, faults=["truncated"], fault_detail="length"),
        verdict(5, 2, 3602, faults=["truncated"], fault_detail="length"),
        verdict(4, 3, 3603),
        verdict(5, 3, 3604, faults=["refused"], fault_detail="cannot"),
    ]
    return [write("g0", VERDICTS, again), write("g1", VERDICTS, [])]
