"""Questions and answers to test with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gavel.inference.ledger import latest, segments
from gavel.inference.request import Answer
from gavel.store.tables import session


def answers(first: int, last: int, **fields: Any) -> list[Answer]:
    """Answers to the requests named h{first} to h{last - 1}."""
    return [Answer(f"h{n}", 1, text=f"text {n}", **fields) for n in range(first, last)]


def kept(folder: Path) -> list[dict[str, Any]]:
    """What the sealed ledger in `folder` holds, each answer once, by key."""
    query = f"{latest(segments(folder))} ORDER BY request_hash, attempt"
    with session() as connection:
        return connection.sql(query).to_arrow_table().to_pylist()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A ledger's folder, not made yet."""
    return tmp_path / "ledger"
