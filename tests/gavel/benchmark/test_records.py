"""The labelled records of a benchmark, and who judges them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gavel.alignment.schema import LABELS
from gavel.benchmark.records import benchmark_judge, benchmark_schema, write_labelled
from gavel.errors import RubricError
from gavel.judge.heuristic import REVISION
from gavel.logs.schema import CLEAN
from gavel.suite import Suite
from tests.gavel.judge.conftest import TINY, record, row_id, tiny


def write(path: Path, schema: pa.Schema, rows: list[dict[str, Any]]) -> Path:
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    return path


def clean(number: int, task: str = "tiny", **changes: Any) -> dict[str, Any]:
    row = record(number, 0, 0) | {"task": task} | changes
    return {name: row.get(name) for name in CLEAN.names}


def label(number: int, status: str = "valid") -> dict[str, Any]:
    return {"row_id": row_id(number), "task": "tiny", "status": status}


def test_each_labelled_record_once_as_its_last_day_has_it(tmp_path: Path) -> None:
    days = [
        write(tmp_path / "2026-11-02.parquet", CLEAN, [clean(2), clean(1, response="old")]),
        write(
            tmp_path / "2026-11-03.parquet",
            CLEAN,
            [clean(1, response="new"), clean(3), clean(4), clean(5, task="another")],
        ),
    ]
    given = [label(1), label(1), label(2), label(4, "rejected"), label(5), label(9)]
    labels = write(tmp_path / "labels.parquet", LABELS, given)
    out = tmp_path / "out.parquet"
    assert write_labelled(days, labels, out) == 3
    rows = pq.read_table(out).to_pylist()
    assert [(r["task"], r["row_id"], r["shard_row"]) for r in rows] == [
        ("another", row_id(5), 0),
        ("tiny", row_id(1), 0),
        ("tiny", row_id(2), 1),
    ]
    assert rows[1]["response"] == "new"


def test_without_labels_or_days_there_is_an_empty_table(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    assert write_labelled([], None, out) == 0
    assert write_labelled([tmp_path / "day.parquet"], None, out) == 0
    assert pq.read_table(out).num_rows == 0


def test_floors_are_judges_like_any_other() -> None:
    suite = Suite.model_validate(
        {
            "first_day": "2026-11-02",
            "sources": [{"name": "s", "format": "jsonl", "path": "{day}.jsonl"}],
            "evaluator": "big",
            "evaluators": {
                "big": {"backend": "openai_compatible", "base_url": "http://x/v1", "model": "big-1"}
            },
        }
    )
    assert suite.benchmarked() == ["big", "heuristic", "majority", "constant"]
    people = {"intent": {row_id(n): "return" for n in range(3)}}
    models = {
        name: benchmark_judge(suite, name, TINY, people).evaluator.model
        for name in suite.benchmarked()
    }
    assert models["big"] == "big-1"
    assert models["heuristic"] == REVISION
    assert models["majority"].startswith("majority-")
    assert models["constant"].startswith("constant-")
    # Another majority is another model, whose answers are not those of the first.
    assert benchmark_judge(suite, "majority", TINY, {}).evaluator.model != models["majority"]


def test_a_name_that_is_a_label_here_and_a_dimension_there_is_told() -> None:
    clash = tiny(
        rubric_yaml=(
            "task: tiny\nversion: 1\ndescription: d\nrationale: true\n"
            "dimensions:\n  intent: {type: integer, min: 1, max: 5, description: x}\n"
        ),
        labels_yaml="{}",
    )
    with pytest.raises(RubricError, match="a dimension and a label of one name"):
        benchmark_schema([TINY, clash])
    assert benchmark_schema([TINY, TINY]).names[0] == "task"
