"""What is valid in the log tables, as pandera schemas on polars frames."""

from __future__ import annotations

from collections.abc import Mapping

import pandera.polars as pa
import polars as pl
import pyarrow

from gavel.logs.schema import CLEAN, RAW, REASONS, REJECTED, SHARD

_POLARS: Mapping[pyarrow.DataType, pl.DataType] = {
    pyarrow.string(): pl.String(),
    pyarrow.binary(): pl.Binary(),
    pyarrow.int32(): pl.Int32(),
    pyarrow.int64(): pl.Int64(),
    pyarrow.bool_(): pl.Boolean(),
    pyarrow.date32(): pl.Date(),
    pyarrow.timestamp("us", tz="UTC"): pl.Datetime("us", "UTC"),
    pyarrow.list_(pyarrow.string()): pl.List(pl.String()),
}


def _known_reasons(data: pa.PolarsData) -> pl.LazyFrame:
    known = pl.col(data.key).list.eval(pl.element().is_in(list(REASONS))).list.all()
    return data.lazyframe.select(known & (pl.col(data.key).list.len() > 0))


def _end_not_before_start(data: pa.PolarsData) -> pl.LazyFrame:
    in_order = pl.col("end_time") >= pl.col("start_time")
    return data.lazyframe.select(in_order.fill_null(value=True))


_ROW_ID = pa.Check.str_matches(r"^[0-9a-f]{32}$")
_NOT_BLANK = pa.Check.str_contains(r"\S")
_NOT_NEGATIVE = pa.Check.ge(0)

_COLUMN_CHECKS: Mapping[str, pa.Check] = {
    "row_id": _ROW_ID,
    "user_id": _NOT_BLANK,
    "conversation_id": _NOT_BLANK,
    "prompt": _NOT_BLANK,
    "response": _NOT_BLANK,
    "line": pa.Check.ge(1),
    "source_line": pa.Check.ge(1),
    "fault": pa.Check.isin(["unparseable_line", "invalid_utf8"]),
    "reasons": pa.Check(_known_reasons, name="known_reasons"),
    "shard": _NOT_NEGATIVE,
    "shard_row": _NOT_NEGATIVE,
}

_TIMES = pa.Check(_end_not_before_start, name="end_not_before_start")


def _valid(
    name: str, schema: pyarrow.Schema, unique: tuple[str, ...] = (), check: pa.Check | None = None
) -> pa.DataFrameSchema:
    return pa.DataFrameSchema(
        {
            field.name: pa.Column(
                _POLARS[field.type],
                checks=_COLUMN_CHECKS.get(field.name),
                nullable=field.nullable,
                unique=field.name in unique,
            )
            for field in schema
        },
        checks=check,
        strict=True,
        ordered=True,
        name=name,
    )


RAW_VALID = _valid("logs/raw", RAW)
CLEAN_VALID = _valid("logs/clean", CLEAN, unique=("row_id",), check=_TIMES)
REJECTED_VALID = _valid("logs/rejected", REJECTED)
SHARD_VALID = _valid("shards", SHARD, unique=("row_id", "shard_row"), check=_TIMES)
