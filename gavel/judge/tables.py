"""The tables of judging: Arrow schemas and pandera schemas, compiled from a rubric."""

from __future__ import annotations

from typing import Any

import pandera.polars as pandera
import polars as pl
import pyarrow as pa

from gavel.judge.rubric import Rubric
from gavel.judge.verdicts import FAULTS

_TIME = pa.timestamp("us", tz="UTC")

VOLATILE = (
    "worker",
    "run_id",
    "reused",
    "retries",
    "latency_ms",
    "evaluated_at",
)
"""Columns that tell of the asking, not of the verdict: they differ when the same day is judged anew."""

TIERS = ("first", "panel", "second")
"""Who decides a score: the task's evaluator, its panel, or the larger evaluator that it was escalated to."""

_PROVENANCE = [
    ("evaluator", pa.string()),
    ("model", pa.string()),
    ("model_revision", pa.string()),
    ("prompt_version", pa.string()),
    ("rubric_hash", pa.string()),
    ("config_hash", pa.string()),
    ("request_hash", pa.string()),
    ("worker", pa.string()),
    ("run_id", pa.string()),
    ("attempt", pa.int32()),
    ("reused", pa.bool_()),
    ("retries", pa.list_(pa.string())),
    ("finish_reason", pa.string()),
    ("prompt_tokens", pa.int64()),
    ("completion_tokens", pa.int64()),
    ("cost_usd", pa.float64()),
    ("latency_ms", pa.float64()),
    ("evaluated_at", _TIME),
]


_SURENESS = pa.struct(
    [("field", pa.string()), ("confidence", pa.float64()), ("expected", pa.float64())]
)


def _judged(rubric: Rubric) -> list[tuple[str, pa.DataType]]:
    return [
        *((dimension.name, pa.float64()) for dimension in rubric.dimensions),
        *((label, pa.string()) for label in rubric.label_values),
        ("rationale", pa.string()),
        ("confidence", pa.float64()),
        ("field_confidence", pa.list_(_SURENESS)),
    ]


def verdict_schema(rubric: Rubric) -> pa.Schema:
    """One row a verdict: where it belongs, what was judged, its faults, and its full provenance."""
    return pa.schema(
        [
            ("row_id", pa.string()),
            ("shard", pa.int32()),
            ("shard_row", pa.int64()),
            *_judged(rubric),
            ("status", pa.string()),
            ("faults", pa.list_(pa.string())),
            ("fault_detail", pa.string()),
            ("raw_response", pa.string()),
            ("mended", pa.string()),
            *_PROVENANCE,
        ]
    )


def opinion_schema(rubric: Rubric) -> pa.Schema:
    """One row a verdict of an evaluator that is not the task's own, with the reasons why it was asked."""
    return verdict_schema(rubric).append(pa.field("because", pa.list_(pa.string())))


def score_schema(rubric: Rubric, record: pa.Schema) -> pa.Schema:
    """One row a record: `record`'s fields, the winning verdict, the aggregate score, the status."""
    return pa.schema(
        [
            *((field.name, field.type) for field in record),
            *_judged(rubric),
            ("faults", pa.list_(pa.string())),
            ("fault_detail", pa.string()),
            ("raw_response", pa.string()),
            ("mended", pa.string()),
            *_PROVENANCE,
            ("score", pa.float64()),
            ("score_normalised", pa.float64()),
            ("attempts", pa.int32()),
            ("regenerated", pa.bool_()),
            ("status", pa.string()),
            ("tier", pa.string()),
            ("escalated", pa.list_(pa.string())),
            ("votes", pa.int32()),
            ("disagreement", pa.float64()),
        ]
    )


def _judged_columns(rubric: Rubric) -> dict[str, Any]:
    columns: dict[str, Any] = {
        dimension.name: pandera.Column(
            pl.Float64, pandera.Check.in_range(dimension.min, dimension.max), nullable=True
        )
        for dimension in rubric.dimensions
    }
    for name, values in rubric.label_values.items():
        columns[name] = pandera.Column(pl.String, pandera.Check.isin(values), nullable=True)
    columns["confidence"] = pandera.Column(pl.Float64, pandera.Check.in_range(0, 1), nullable=True)
    return columns


def _complete_when_valid(rubric: Rubric) -> list[Any]:
    """A valid row holds every dimension that is not optional and every label."""
    required = [d.name for d in rubric.dimensions if not d.optional] + list(rubric.label_values)

    def complete(name: str) -> Any:
        return pandera.Check(
            lambda data: data.lazyframe.select(
                (pl.col("status") != "valid") | pl.col(name).is_not_null()
            ),
            name=f"{name} is there wherever status is valid",
        )

    return [complete(name) for name in required]


def verdict_check(rubric: Rubric) -> pandera.DataFrameSchema:
    """What holds for every verdict: bounds, label sets, known faults, faults exactly when invalid."""
    known = list(FAULTS)
    return pandera.DataFrameSchema(
        {
            "row_id": pandera.Column(pl.String, pandera.Check.str_matches(r"^[0-9a-f]{32}$")),
            "status": pandera.Column(pl.String, pandera.Check.isin(["valid", "invalid"])),
            "request_hash": pandera.Column(pl.String),
            "attempt": pandera.Column(pl.Int32, pandera.Check.ge(1)),
            "faults": pandera.Column(pl.List(pl.String)),
            **_judged_columns(rubric),
        },
        checks=[
            *_complete_when_valid(rubric),
            pandera.Check(
                lambda data: data.lazyframe.select(
                    (pl.col("status") == "valid") == (pl.col("faults").list.len() == 0)
                ),
                name="a verdict is invalid exactly when it has faults",
            ),
            pandera.Check(
                lambda data: data.lazyframe.select(
                    pl.col("faults").list.eval(pl.element().is_in(known)).list.all()
                ),
                name="every fault is a known reason code",
            ),
        ],
    )


def score_check(rubric: Rubric) -> pandera.DataFrameSchema:
    """What holds for every score: one row a record, a score exactly when valid, never out of bounds."""
    low = min(dimension.min for dimension in rubric.dimensions)
    high = max(dimension.max for dimension in rubric.dimensions)
    return pandera.DataFrameSchema(
        {
            "row_id": pandera.Column(pl.String),
            "status": pandera.Column(pl.String, pandera.Check.isin(["valid", "unresolved"])),
            "score": pandera.Column(pl.Float64, pandera.Check.in_range(low, high), nullable=True),
            "attempts": pandera.Column(pl.Int32, pandera.Check.ge(1)),
            "tier": pandera.Column(pl.String, pandera.Check.isin(TIERS)),
            "disagreement": pandera.Column(pl.Float64, pandera.Check.in_range(0, 1), nullable=True),
            **_judged_columns(rubric),
        },
        checks=[
            *_complete_when_valid(rubric),
            pandera.Check(
                lambda data: data.lazyframe.select(
                    (pl.col("status") == "unresolved") <= pl.col("score").is_null()
                ),
                name="an unresolved record has no score",
            ),
        ],
    )
