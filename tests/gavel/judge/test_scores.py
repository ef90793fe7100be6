"""Merging: exactly one row a record, joined by row_id, with scores worked out by hand.

Helpfulness (1-5) weighs 2, depth (0-1, optional) weighs 1.
"""

from collections.abc import Callable, Sequence
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gavel.judge.rubric import Rubric
from gavel.judge.scores import Merged, merge_scores
from gavel.judge.tables import VOLATILE, score_check, score_schema, verdict_schema
from gavel.logs.schema import CLEAN, SHARD
from gavel.store.tables import content_hash
from gavel.suite import Suite

from .conftest import GOOD, RUBRIC_YAML, TINY, Write, record, row_id, tiny

VERDICT = verdict_schema(TINY)
SD = sqrt(8 / 3)  # of 5, 3, 1, 3, their mean being 3
NULLS = [*TINY.columns, "rationale", "confidence", "score", "score_normalised"]


def suite(normalise: str = "zscore") -> Suite:
    return Suite.model_validate(
        {
            "first_day": "2026-11-02",
            "sources": [{"name": "web", "format": "jsonl", "path": "{day}"}],
            "evaluators": {"baseline": {"backend": "heuristic"}},
            "evaluator": "baseline",
            "quality": {"normalise": normalise},
        }
    )


def verdict(number: int, attempt: int, *faults: str, **values: Any) -> dict[str, Any]:
    return {
        "row_id": row_id(number),
        "status": "invalid" if faults else "valid",
        "faults": list(faults),
        "attempt": attempt,
        "evaluator": "one",
        "raw_response": f"answer {number}.{attempt}",
        **GOOD,
        **values,
    }


# Records 0, 2, 4 are in shard 0, records 1 and 3 in shard 1.
SHARDS = [
    [record(0, 0, 0), record(2, 0, 1), record(4, 0, 2)],
    [record(1, 1, 0), record(3, 1, 1)],
]
VERDICTS = [
    [verdict(0, 1, helpfulness=5, depth=1), verdict(2, 1, "not_json"), verdict(4, 1, "refused")],
    [verdict(1, 1, "timeout"), verdict(3, 1, helpfulness=1, depth=None)],
]
REGENERATED = [
    [
        verdict(2, 2, "not_json"),
        verdict(4, 2, helpfulness=3, depth=0),
        verdict(2, 3, "truncated"),
        verdict(4, 3, helpfulness=5, depth=1),
        verdict(2, 4, "out_of_range", "missing_field", helpfulness=5),
    ],
    [verdict(1, 2, "not_json"), verdict(1, 3, helpfulness=3, depth=0.5)],
]
Merge = Callable[..., tuple[Merged, list[dict[str, Any]]]]


@pytest.fixture
def merge(write: Write, tmp_path: Path) -> Merge:
    def run(
        shards: Sequence[Any] = SHARDS,
        verdicts: Sequence[Any] = VERDICTS,
        regenerated: Sequence[Any] = REGENERATED,
        normalise: str = "zscore",
        backwards: bool = False,
        rubric: Rubric = TINY,
    ) -> tuple[Merged, list[dict[str, Any]]]:
        step = -1 if backwards else 1

        def files(name: str, schema: pa.Schema, tables: Sequence[Any]) -> list[Path]:
            written = [write(f"{name}{i}", schema, rows[::step]) for i, rows in enumerate(tables)]
            return written[::step]

        out = tmp_path / "scores.parquet"
        merged = merge_scores(
            suite(normalise),
            rubric,
            files("s", SHARD, shards),
            files("v", verdict_schema(rubric), verdicts),
            files("g", verdict_schema(rubric), regenerated),
            out,
        )
        table = pq.read_table(out)
        assert table.schema == score_schema(rubric, CLEAN)
        score_check(rubric).validate(pl.from_arrow(table), lazy=True)
        return merged, table.to_pylist()

    return run


def test_each_record_has_one_row_with_the_first_valid_verdict_else_the_last(merge: Merge) -> None:
    merged, rows = merge()
    assert merged == Merged(records=5, valid=2, repaired=2, unresolved=1)
    assert [row["row_id"] for row in rows] == [row_id(number) for number in range(5)]
    assert [row["raw_response"] for row in rows] == [
        *("answer 0.1", "answer 1.3", "answer 2.4", "answer 3.1", "answer 4.2"),
    ]
    assert [row["attempt"] for row in rows] == [1, 3, 4, 1, 2]
    assert [row["attempts"] for row in rows] == [1, 3, 4, 1, 3]
    assert [row["regenerated"] for row in rows] == [False, True, True, False, True]
    assert [row["status"] for row in rows] == ["valid", "valid", "unresolved", "valid", "valid"]


def test_a_row_keeps_the_fields_of_its_own_record(merge: Merge) -> None:
    _, rows = merge()
    assert [row["prompt"] for row in rows] == [f"prompt {number}" for number in range(5)]
    assert [row["response"] for row in rows] == [f"response {number}" for number in range(5)]


def test_a_score_is_the_weighted_mean_of_the_dimensions_present(merge: Merge) -> None:
    _, rows = merge()
    scores = [row["score"] for row in rows]
    # (2*5 + 1*1)/3, (2*3 + 0.5)/3, unresolved, 2*1/2 without depth, (2*3 + 0)/3
    assert scores == [pytest.approx(11 / 3), pytest.approx(6.5 / 3), None, 1.0, 2.0]


@pytest.mark.parametrize("value", [0, 1])
def test_rounding_takes_no_score_out_of_its_bounds(merge: Merge, value: int) -> None:
    """In double precision 0.1 * 1 + 0.2 * 1 is more than 0.3."""
    rubric = RUBRIC_YAML.replace(
        "integer, min: 1, max: 5, weight: 2", "number, min: 0, max: 1, weight: 0.1"
    )
    weighted = tiny(rubric_yaml=rubric.replace("weight: 1,", "weight: 0.2,"))
    verdicts = [verdict(0, 1, helpfulness=value, depth=value)]
    _, rows = merge([[record(0, 0, 0)]], [verdicts], [[]], "minmax", rubric=weighted)
    assert (rows[0]["score"], rows[0]["score_normalised"]) == (value, value)


def test_an_unresolved_record_is_null_and_keeps_its_faults(merge: Merge) -> None:
    row = merge()[1][2]
    assert {name: row[name] for name in NULLS} == dict.fromkeys(NULLS)
    assert row["faults"] == ["out_of_range", "missing_field"]


@pytest.mark.parametrize(
    ("normalise", "expected"),
    [
        # helpfulness: mean 3, sd SD; depth of 1, 0.5 and 0: mean 0.5, sd 0.5
        ("zscore", [(2 * 2 / SD + 1) / 3, 0.0, None, -2 / SD, -1 / 3]),
        # helpfulness: (value - 1) / 4; depth as it is
        ("minmax", [1.0, (2 * 0.5 + 0.5) / 3, None, 0.0, (2 * 0.5 + 0) / 3]),
    ],
)
def test_a_score_is_normalised_as_the_suite_says(
    merge: Merge, normalise: str, expected: list[float | None]
) -> None:
    _, rows = merge(normalise=normalise)
    found = [row["score_normalised"] for row in rows]
    assert found == [value if value is None else pytest.approx(value) for value in expected]


def test_each_evaluator_is_normalised_by_itself(merge: Merge) -> None:
    values = [("one", 1), ("one", 3), ("two", 3), ("two", 5)]
    records = [record(number, 0, number) for number in range(4)]
    verdicts = [
        verdict(number, 1, evaluator=name, helpfulness=value, depth=None)
        for number, (name, value) in enumerate(values)
    ]
    _, rows = merge([records], [verdicts], [[]])
    z = 1 / sqrt(2)  # of two values two apart: the deviation 1 by the sample sd sqrt(2)
    assert [row["score_normalised"] for row in rows] == [pytest.approx(v) for v in (-z, z, -z, z)]


def test_a_dimension_that_never_varies_has_no_z_score(merge: Merge) -> None:
    records = [record(number, 0, number) for number in range(2)]
    verdicts = [verdict(number, 1, helpfulness=4, depth=number) for number in range(2)]
    _, rows = merge([records], [verdicts], [[]])
    z = 1 / sqrt(2)
    assert [row["score_normalised"] for row in rows] == [pytest.approx(-z), pytest.approx(z)]
    _, rows = merge([records[:1]], [verdicts[:1]], [[]])
    assert [(row["score"], row["score_normalised"]) for row in rows] == [
        (pytest.approx(8 / 3), None)
    ]


def test_the_order_of_files_and_rows_changes_nothing(merge: Merge, tmp_path: Path) -> None:
    merge()
    bytes_before = (tmp_path / "scores.parquet").read_bytes()
    merge(backwards=True)
    assert (tmp_path / "scores.parquet").read_bytes() == bytes_before


def test_a_day_without_records_has_an_empty_table(merge: Merge) -> None:
    assert merge([[], []], [[], []], [[], []]) == (Merged(0, 0, 0, 0), [])


def test_a_large_day_merged_twice_is_equal_to_the_last_bit(tmp_path: Path) -> None:
    count = 60_000
    draw = np.random.default_rng(7)
    filled = pa.repeat(pa.scalar("x"), count)
    ids = pa.array(map(row_id, range(count)))
    numbers = pa.array(np.arange(count))

    def table(schema: pa.Schema, **columns: Any) -> pa.Table:
        arrays = []
        for field in schema:
            text = field.type == pa.string() and not field.nullable
            column = columns.get(field.name, filled if text else pa.nulls(count, field.type))
            if field.name in ("start_time", "created_date"):
                column = pa.repeat(pa.scalar(0, pa.int64()), count)
                column = column.cast(pa.int32()) if field.name == "created_date" else column
            arrays.append(column.cast(field.type))
        return pa.Table.from_arrays(arrays, schema=schema)

    shard, verdicts, again = (tmp_path / f"{name}.parquet" for name in ("s", "v", "g"))
    pq.write_table(
        table(SHARD, row_id=ids, source_line=numbers, shard_row=numbers, shard=numbers), shard
    )
    judged = {
        "status": pa.repeat(pa.scalar("valid"), count),
        "attempt": pa.repeat(pa.scalar(1, pa.int32()), count),
        "helpfulness": pa.array(draw.integers(1, 6, count), pa.float64()),
        "depth": pa.array(draw.random(count)),
        "evaluator": filled,
    }
    pq.write_table(table(VERDICT, row_id=ids, **judged), verdicts, row_group_size=5_000)
    pq.write_table(VERDICT.empty_table(), again)
    hashes = set()
    for _ in range(3):
        merge_scores(suite(), TINY, [shard], [verdicts], [again], tmp_path / "out.parquet")
        hashes.add(content_hash(tmp_path / "out.parquet", VOLATILE))
    assert len(hashes) == 1
