"""A store with two scored tasks, small enough to count by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from gavel.alignment.files import Cell
from gavel.alignment.labels import check_labels
from gavel.judge.releases import release
from gavel.judge.rubric import Rubric, load_rubric
from gavel.judge.tables import verdict_schema
from gavel.store.files import Store
from gavel.store.tables import write_batches
from gavel.suite import Suite, load_suite

DAY = "2026-11-02"
RUBRIC = """\
task: {task}
version: 1
description: Score an answer.
dimensions:
  help: {{type: integer, min: 1, max: 5, weight: 2, description: does it help}}
  tone: {{type: number, min: 0, max: 1, weight: 1, description: is it kind}}
  wit: {{type: integer, min: 1, max: 5, weight: 1, optional: true, description: is it funny}}
"""
LABELS = """\
intent:
  nested: sub_intent
  values:
    buy: {description: wants to buy, values: {paint: {}, nails: {}}}
    Return: {values: {broken: {}, "wrong size": {}}}
"""


def record(number: int, **changes: Any) -> dict[str, Any]:
    """One scored record: its row_id is its number, three of them are a conversation."""
    return {
        "row_id": f"{number:032x}",
        "conversation_id": f"c{number // 3}",
        "language": "de" if number % 4 == 0 else "en",
        "prompt": f"Question {number}?",
        "response": "Answer. " * (1 + number % 5),
        "reference": None,
        "source_text": None,
        "agent_version": "acme-2",
        "evaluator": "judge",
        "model": "acme-judge",
        "help": float(1 + number % 5),
        "tone": 0.5,
        "wit": None,
        "intent": "buy" if number % 3 else "Return",
        "sub_intent": "paint" if number % 3 else "broken",
        "confidence": 0.2 + 0.1 * (number % 8),
        "field_confidence": None,
        "score": (2 * float(1 + number % 5) + 0.5) / 3,
        "status": "valid",
        **changes,
    }


@dataclass
class Scored:
    """A suite with scored records, and what its label files are."""

    folder: Path
    settings: dict[str, Any]

    @property
    def suite(self) -> Suite:
        (self.folder / "suite.yaml").write_text(yaml.safe_dump(self.settings), encoding="utf-8")
        return load_suite(self.folder / "suite.yaml")

    @property
    def store(self) -> Store:
        return Store(self.folder / "data")

    def score(
        self, records: Iterable[Mapping[str, Any]], task: str = "chat", day: str = DAY
    ) -> None:
        kinds = {
            name: pa.float64() if isinstance(value, float) else pa.string()
            for name, value in {**record(1), "wit": 1.0}.items()
        }
        kinds["field_confidence"] = (
            verdict_schema(Rubric("", 1, "", True, (), (), {})).field("field_confidence").type
        )
        table = pa.Table.from_pylist([dict(r) for r in records], schema=pa.schema(kinds))
        write_batches(self.store.table(f"{task}/scores", day), table.schema, table.to_batches())

    def labels(self, cells: Iterable[Mapping[str, Any]]) -> pa.Table:
        """The labels of cells, of row 1 and by ann unless they say otherwise."""
        usual = {
            "file": "f",
            "row_id": f"{1:032x}",
            "annotator": "ann",
            "field": "help",
            "value": "3",
        }
        made = [Cell(**{**usual, "line": n, **cell}) for n, cell in enumerate(cells, 1)]
        return check_labels(self.suite, self.store, made)


@pytest.fixture
def scored(tmp_path: Path) -> Scored:
    """Thirty records of chat, two of translation."""
    made = Scored(
        tmp_path,
        {
            "first_day": DAY,
            "sources": [{"name": "shop", "format": "jsonl", "path": "{day}.jsonl"}],
            "evaluator": "judge",
            "evaluators": {"judge": {"backend": "heuristic"}},
            "alignment": {"resamples": 200, "acceptable": {"intent": "buy"}},
        },
    )
    for task in ("chat", "translation"):
        folder = tmp_path / "prompts" / task
        folder.mkdir(parents=True)
        (folder / "rubric.yaml").write_text(RUBRIC.format(task=task))
        (folder / "labels.yaml").write_text(LABELS)
        for name in ("judge.j2", "repair.j2"):
            (folder / name).write_text(
                "{% block system %}{% endblock %}{% block user %}{% endblock %}"
            )
        release(made.store, load_rubric(folder))
    made.score([record(n) for n in range(30)])
    made.score([record(n) for n in (100, 101)], "translation")
    return made


Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a text as a file."""

    def written(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return written
