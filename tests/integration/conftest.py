"""What every test against a real server has: short pauses, a bench, and no loose ends afterwards."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from .judging import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """An empty bench."""
    return Bench(tmp_path)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gavel.inference.dispatch._BACKOFF", 0.01)


@pytest.fixture(autouse=True)
def _nothing_left_open(
    caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
) -> Iterator[None]:
    """No event loop, connection, file or task outlives a test."""
    yield
    gc.collect()
    assert [str(w.message) for w in recwarn if issubclass(w.category, ResourceWarning)] == []
    assert [r.getMessage() for r in caplog.records if r.name == "asyncio"] == []
