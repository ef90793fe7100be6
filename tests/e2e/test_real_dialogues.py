"""The whole graph over 1,000 real dialogues, with defects at known places: every equality must come out."""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from gavel.report.day import accounting
from tests.e2e.conftest import SHARED, Project

DIALOGUES = SHARED / "convlab" / "test.json.zip"
DAY = "2026-11-02"

pytestmark = pytest.mark.skipif(
    not DIALOGUES.exists(), reason=f"the MultiWOZ dialogues are not there: {DIALOGUES}"
)


def turns() -> list[dict[str, Any]]:
    """Every (user turn, system turn) pair of the dialogues, as a chat log has them."""
    with zipfile.ZipFile(DIALOGUES) as archive:
        dialogues = json.loads(archive.read("test.json"))
    start = datetime(2026, 11, 2, 8, tzinfo=UTC)
    rows = []
    for number, (name, dialogue) in enumerate(sorted(dialogues.items())):
        texts = [turn["text"] for turn in dialogue["log"]]
        for turn, (prompt, response) in enumerate(zip(texts[::2], texts[1::2], strict=False)):
            at = start + timedelta(seconds=30 * number + turn)
            rows.append(
                {
                    "id": f"{name}-{turn}",
                    "user_id": f"u{number}",
                    "conversation_id": name,
                    "start_time": at.isoformat(),
                    "end_time": (at + timedelta(seconds=1)).isoformat(),
                    "task": "chat",
                    "prompt": prompt,
                    "response": response,
                    "language": "en",
                }
            )
    return rows


DEFECTS = {
    "empty_prompt": {"prompt": "  "},
    "empty_response": {"response": ""},
    "missing_user_id": {"user_id": None},
    "missing_conversation_id": {"conversation_id": ""},
    "malformed_timestamp": {"start_time": "yesterday"},
    "end_before_start": {"end_time": "2026-11-02T00:00:00Z"},
    "unknown_task": {"task": "poetry"},
}


def spoiled(rows: list[dict[str, Any]]) -> tuple[bytes, Counter[str]]:
    """The log file with a defect of every kind, ten times each, and how many rows each reason rejects."""
    expected: Counter[str] = Counter()
    lines = [json.dumps(row).encode() for row in rows]
    at = 0
    for reason, change in DEFECTS.items():
        for _ in range(10):
            lines[at] = json.dumps(rows[at] | change).encode()
            expected[reason] += 1
            at += 7
    for _ in range(10):
        lines[at] = lines[at][:-5]
        expected["unparseable_line"] += 1
        at += 7
        lines[at] = lines[at].replace(b'"prompt": "', b'"prompt": "\xff')
        expected["invalid_utf8"] += 1
        at += 7
        lines.append(json.dumps(rows[at] | {"prompt": "said again"}).encode())
        expected["duplicate_record_id"] += 1
        at += 7
    return b"\n".join(lines) + b"\n", expected


def test_nothing_of_real_dialogues_is_lost(project: Project) -> None:
    rows = turns()
    assert len(rows) == 7372, "the data set has 7,372 turns"
    content, expected = spoiled(rows)
    Path(project.folder, "logs", f"{DAY}.jsonl").write_bytes(content)
    project.evaluate(DAY)

    raw, rejected = len(rows) + 10, sum(expected.values())
    store = project.store
    found = Counter(
        reason
        for reasons in pq.read_table(store.existing("logs/rejected", DAY))["reasons"].to_pylist()
        for reason in reasons
    )
    assert found == expected
    equalities = accounting(project.suite, store, DAY, project.suite.task_names())
    assert all(equality.holds for equality in equalities)
    figures = {(e.scope, e.statement): e.left for e in equalities}
    assert figures["day", "raw = clean + rejected"] == raw
    assert figures["day", "clean = sum of shards over tasks"] == raw - rejected
    assert figures["chat", "scores = clean"] == raw - rejected
    assert figures["translation", "scores = clean"] == 0
    with duckdb.connect(str(project.suite.path(project.suite.warehouse)), read_only=True) as db:
        published = db.execute(
            "SELECT count(*), count(DISTINCT row_id) FROM chat_scores"
        ).fetchall()
    assert published == [(raw - rejected, raw - rejected)]
