"""Labelled records of the tiny task, and verdicts of evaluators whose agreement with people is known."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import polars as pl

from gavel.benchmark.table import Labelled
from gavel.judge.tables import verdict_schema
from tests.gavel.judge.conftest import TINY, row_id

START = dt.datetime(2026, 11, 2, 10, tzinfo=dt.UTC)
Says = Callable[[int], dict[str, Any]]
"""What an evaluator says of record n: changes to the verdict, or how it fails."""


def people(n: int) -> dict[str, Any]:
    """What people say of record n."""
    return {"helpfulness": 1.0 + n % 5, "intent": ("buy", "return")[n % 4 == 0]}


def labelled(records: int, conversation: int = 1) -> Labelled:
    """So many records, `conversation` to a conversation, whose helpfulness and intent people labelled."""
    ids = [row_id(n) for n in range(records)]
    table = pl.DataFrame(
        {
            "row_id": ids,
            "conversation_id": [f"c{n // conversation}" for n in range(records)],
            "language": ["de" if n % 3 == 0 else "en" for n in range(records)],
        }
    )
    said = {field: {ids[n]: people(n)[field] for n in range(records)} for field in people(0)}
    return Labelled(TINY, table, said, "records.labels")


def answers(verdicts: pl.DataFrame) -> pl.DataFrame:
    """The answers that verdicts were read from, as the ledger has them."""
    return verdicts.rename({"evaluated_at": "answered_at"}).unique(["request_hash", "attempt"])


def verdicts(name: str, records: int, says: Says, latency: float = 100.0) -> pl.DataFrame:
    """One verdict a record, one after another, each taking `latency` milliseconds."""
    rows = []
    for n in range(records):
        said = {"status": "valid", "faults": [], **people(n), **says(n)}
        rows.append(
            {
                "row_id": row_id(n),
                "sub_intent": "paint" if said["intent"] == "buy" else "broken",
                "acceptability": "acceptable",
                "confidence": 0.9,
                "evaluator": name,
                "model": f"{name}-model",
                "model_revision": "rev",
                "config_hash": "c" * 32,
                "request_hash": f"{name}{n}",
                "run_id": "run",
                "attempt": 1,
                "retries": [],
                "prompt_tokens": 1000,
                "completion_tokens": 100,
                "cost_usd": 0.002,
                "latency_ms": latency,
                "evaluated_at": START + dt.timedelta(milliseconds=latency * (n + 1)),
                **said,
            }
        )
    schema = pl.Schema(verdict_schema(TINY))
    return pl.DataFrame([{k: row.get(k) for k in schema} for row in rows], schema=schema)
