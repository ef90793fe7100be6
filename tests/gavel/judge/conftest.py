"""A tiny rubric, its valid answer, and tables of verdicts to merge."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gavel.judge.rubric import Rubric, compile_rubric
from gavel.logs.schema import SHARD

PROMPTS = Path(__file__).parents[3] / "prompts"
RUBRIC_YAML = """\
task: tiny
version: 1
description: Score a tiny answer.
rationale: true
dimensions:
  helpfulness: {type: integer, min: 1, max: 5, weight: 2, description: does it help}
  depth: {type: number, min: 0, max: 1, weight: 1, optional: true, description: how deep}
"""
LABELS_YAML = """\
intent:
  nested: sub_intent
  values:
    buy: {values: {paint: {}, nails: {}}}
    return: {values: {broken: {}, wrong size: {}}}
acceptability:
  values: {acceptable: {}, not_acceptable: {}}
"""
JUDGE_J2 = """\
{% block system %}Judge by {{ rubric.task }} {{ rubric.version }}.{% endblock %}
{% block user %}
<record>
{{ record.prompt | fence }} {{ record.response | fence }}
{% if record.language is not none %}{{ record.language | fence }}{% endif %}
</record>
{% endblock %}
"""
REPAIR_J2 = """\
{% block user %}{% for fault in faults %}{{ fault.code }}: {{ fault.detail | fence }}
{% endfor %}{% endblock %}
"""
FILES = {
    "rubric.yaml": RUBRIC_YAML,
    "labels.yaml": LABELS_YAML,
    "judge.j2": JUDGE_J2,
    "repair.j2": REPAIR_J2,
}
GOOD: dict[str, Any] = {
    "rationale": "It helps.",
    "helpfulness": 4,
    "depth": 0.5,
    "intent": "buy",
    "sub_intent": "nails",
    "acceptability": "acceptable",
    "confidence": 0.9,
}


def tiny(**files: str) -> Rubric:
    """The tiny rubric, with other texts for the files named, as in `rubric_yaml`."""
    return compile_rubric("tiny", {**FILES, **files_of(files)}, "prompts/tiny")


def files_of(texts: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): text for name, text in texts.items()}


TINY = tiny()


def answer(text: str | None, **other: Any) -> dict[str, Any]:
    """A row of the ledger, as far as reading an answer goes."""
    empty = {"finish_reason": "stop", "refusal": None, "failure": None, "detail": None}
    return {"text": text, **empty, **other}


def good(**changes: Any) -> str:
    """The valid answer as JSON, with `changes`; a key set to `...` is left out."""
    return json.dumps({k: v for k, v in {**GOOD, **changes}.items() if v is not ...})


Write = Callable[[str, pa.Schema, list[dict[str, Any]]], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write_rows(name: str, schema: pa.Schema, rows: list[dict[str, Any]]) -> Path:
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
        return path

    return write_rows


def row_id(number: int) -> str:
    return f"{number:032x}"


def record(number: int, shard: int, shard_row: int, **other: Any) -> dict[str, Any]:
    """A row of a shard."""
    filled = dict.fromkeys(SHARD.names) | {
        field.name: "x" for field in SHARD if field.type == pa.string() and not field.nullable
    }
    return filled | {
        "row_id": row_id(number),
        "record_id": f"r{number}",
        "source_line": number,
        "start_time": 0,
        "created_date": 0,
        "prompt": f"prompt {number}",
        "response": f"response {number}",
        "shard": shard,
        "shard_row": shard_row,
        **other,
    }
