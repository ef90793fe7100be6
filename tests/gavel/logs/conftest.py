"""A small day of logs to write, ingest and look at."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from gavel.logs.clean import CleanCounts, clean, write_raw
from gavel.suite import Suite

DAY = dt.date(2026, 11, 2)
TASKS = ["chat", "translation"]
GOOD: dict[str, Any] = {
    "record_id": "r1",
    "user_id": "u1",
    "conversation_id": "c1",
    "start_time": "2026-11-02T10:00:00Z",
    "end_time": "2026-11-02T10:00:09Z",
    "task": "chat",
    "prompt": "Which grout fits my tiles?",
    "response": "Flexible grout, since wood moves.",
}


@dataclass
class Day:
    """What a day's ingest wrote."""

    counts: CleanCounts
    raw: list[dict[str, Any]]
    clean: list[dict[str, Any]]
    rejected: list[dict[str, Any]]
    folder: Path

    @property
    def reasons(self) -> dict[str, list[str]]:
        """Each rejected row's reasons, by its text."""
        return {row["content_text"]: row["reasons"] for row in self.rejected}


Ingest = Callable[..., Day]


def row(**changes: Any) -> dict[str, Any]:
    """A good row with `changes`; a field set to `...` is left out."""
    return {name: value for name, value in {**GOOD, **changes}.items() if value is not ...}


def lines(rows: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)


def make_suite(folder: Path, **settings: Any) -> Suite:
    source = {"name": "web", "format": "jsonl", "path": "{day}.jsonl"}
    suite = Suite.model_validate(
        {
            "first_day": "2026-11-01",
            "sources": [source],
            "evaluators": {"baseline": {"backend": "heuristic"}},
            "evaluator": "baseline",
            **settings,
        }
    )
    suite._file = folder / "suite.yaml"
    return suite


@pytest.fixture
def ingest(tmp_path: Path) -> Ingest:
    """Ingest a day: of JSONL bytes or rows for the default source, or of a whole suite."""

    def run(
        content: bytes | Iterable[dict[str, Any]] | None = None,
        day: dt.date = DAY,
        out: str = "out",
        **settings: Any,
    ) -> Day:
        suite = make_suite(tmp_path, **settings)
        if content is not None:
            data = content if isinstance(content, bytes) else lines(content)
            (tmp_path / f"{day}.jsonl").write_bytes(data)
        folder = tmp_path / out
        paths = [folder / f"{name}.parquet" for name in ("raw", "clean", "rejected")]
        write_raw(suite, day, paths[0])
        counts = clean(suite, *paths, TASKS)
        tables = [pq.read_table(path).to_pylist() for path in paths]
        assert [len(table) for table in tables] == [counts.raw, counts.clean, counts.rejected]
        assert counts.raw == counts.clean + counts.rejected
        return Day(counts, *tables, folder)

    return run
