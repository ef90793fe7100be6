"""The schemas refuse what ingest never writes."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pandera.errors
import polars as pl
import pytest

from gavel.logs.validity import CLEAN_VALID, REJECTED_VALID

from .conftest import Ingest, row


@pytest.fixture
def day(ingest: Ingest) -> Path:
    rows = [row(record_id=i) for i in range(2)]
    return ingest([*rows, row(prompt="")]).folder


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("row_id", "A" * 32),
        ("row_id", "0" * 32),
        ("prompt", " "),
        ("user_id", None),
        ("source_line", 0),
        ("end_time", dt.datetime(2026, 11, 1, tzinfo=dt.UTC)),
    ],
)
def test_no_such_record(day: Path, column: str, value: Any) -> None:
    frame = pl.read_parquet(day / "clean.parquet")
    CLEAN_VALID.validate(frame)
    wrong = frame.with_columns(pl.lit(value, frame.schema[column]).alias(column))
    with pytest.raises(pandera.errors.SchemaError):
        CLEAN_VALID.validate(wrong)


@pytest.mark.parametrize("reasons", [[], ["empty_prompt", "no_such_reason"], None])
def test_no_such_rejection(day: Path, reasons: list[str] | None) -> None:
    frame = pl.read_parquet(day / "rejected.parquet")
    REJECTED_VALID.validate(frame)
    wrong = frame.with_columns(pl.Series("reasons", [reasons], pl.List(pl.String)))
    with pytest.raises(pandera.errors.SchemaError):
        REJECTED_VALID.validate(wrong)
