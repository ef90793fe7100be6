"""Log rows from a table of BigQuery: those of a day, and no other partition is scanned."""

from __future__ import annotations

import datetime as dt
import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from gavel.errors import SourceError
from gavel.logs.columns import assign, check_header
from gavel.logs.readers import rows_as_json
from gavel.settings.logs import Source
from gavel.store.bigquery import Connect, arrow, label, patient, rows, run, told
from gavel.store.bucket import shown
from gavel.suite import Suite

_FRESH = 10.0
"""Seconds for which the partitions of a table are taken as they were: a tick asks for many days."""

Parameters = dict[str, tuple[str, Any]]
"""Type and value of each parameter of a query, by name."""

_partitions_seen: dict[tuple[str, str | None], tuple[float, list[dict[str, Any]]]] = {}


@dataclass(frozen=True)
class Scan:
    """What reading a day will scan, by a dry run: bytes, and why they are too many, where they are."""

    bytes: int
    warning: str | None


def read_day(
    source: Source, day: dt.date, suite: Suite, connect: Connect
) -> Iterator[pa.RecordBatch]:
    """The source's rows of `day` as batches of RAW, in the order of their record ids.

    Raises:
        SourceError: BigQuery refuses or cannot be reached, a needed column is missing, or more bytes would be
            scanned than the suite allows.
    """
    with _open(source, suite, connect) as client:
        query, parameters = _query(_schema(client, source), source, day, suite)
        _scan(client, query, parameters, source, day, suite)
        found = rows(run(client, query, parameters, **_settings(source, suite)))
        documents = {field.name for field in found.schema if field.field_type == "JSON"}
        batches = arrow(client, found)
        yield from rows_as_json(batches, source, f"bigquery://{source.path}", documents)


def scan_of(source: Source, day: dt.date, suite: Suite, connect: Connect) -> Scan:
    """What reading `day` will scan. Raises SourceError, as above."""
    with _open(source, suite, connect) as client:
        query, parameters = _query(_schema(client, source), source, day, suite)
        scanned = _scan(client, query, parameters, source, day, suite)
        table = client.get_table(source.path, retry=patient())
        parted = table.time_partitioning
        if parted is not None and (parted.field or "_PARTITIONDATE") == source.date_column:
            return Scan(scanned, None)
        return Scan(
            scanned,
            f"{source.path} is not partitioned by {source.date_column}: every day scans the whole table",
        )


def _scan(
    client: Any, query: str, parameters: Parameters, source: Source, day: dt.date, suite: Suite
) -> int:
    """The bytes that `query` for `day` will scan, by a dry run. Raises SourceError where they are too many."""
    job = run(client, query, parameters, dry_run=True, use_query_cache=False)
    scanned = int(job.total_bytes_processed or 0)
    if scanned > suite.bigquery.max_gb_billed * 1e9:
        raise SourceError(
            f"{_place(source, suite)}: {day} would scan {scanned / 1e9:,.1f} GB, more than "
            f"bigquery.max_gb_billed ({suite.bigquery.max_gb_billed:,g}); partition the table by "
            f"{source.date_column}, name fewer columns under `only`, or raise the bound"
        )
    return scanned


def fingerprint_of(source: Source, day: dt.date, suite: Suite, connect: Connect) -> str | None:
    """32 hex digits that change when a partition that may hold rows of `day` changes; None where there is none."""
    start, end = _days_partition(day, suite)
    partitions = _partitions(source, suite, connect)
    by_time = [(p, span) for p in partitions if (span := _span(p["partition_id"])) is not None]
    ours = [p for p, span in by_time if span[0] < end and start < span[1]]
    if not ours and by_time:
        return None
    # What no time names may be of any day: rows not placed yet, rows without a date, a table without partitions.
    ours += [p for p in partitions if _span(p["partition_id"]) is None]
    if not ours:
        return None
    text = sorted("\x1f".join(str(partition.get(name)) for name in _TELLING) for partition in ours)
    return hashlib.sha256("\n".join(text).encode()).hexdigest()[:32]


def days_of(source: Source, suite: Suite, connect: Connect) -> list[dt.date]:
    """The days that have a partition of their own, in order."""
    spans = (_span(p.get("partition_id")) for p in _partitions(source, suite, connect))
    return sorted({span[0].date() for span in spans if span is not None})


def columns_of(source: Source, suite: Suite, connect: Connect) -> dict[str, list[str]]:
    """The columns that are taken for each field of a record. Raises SourceError where a day could not be read."""
    with _open(source, suite, connect) as client:
        schema = _schema(client, source)
        _query(schema, source, suite.first_day, suite)
        names = [field.name for field in schema]
        return assign(source, names, f"bigquery://{source.path}", suite)


@contextmanager
def _open(source: Source, suite: Suite, connect: Connect) -> Iterator[Any]:
    settings = suite.bigquery
    with (
        told(_place(source, suite), SourceError),
        connect(settings.project, settings.location) as client,
    ):
        yield client


def _place(source: Source, suite: Suite) -> str:
    return f"{shown(suite.file)}: sources.{source.name} ({source.path})"


def _rows_from(source: Source) -> str:
    return f"`{source.path}`" if source.query is None else f"({source.query.rstrip().rstrip(';')})"


def _schema(client: Any, source: Source) -> Sequence[Any]:
    """The columns of the table, or of the query, which a dry run tells; of those, the ones to be read."""
    job = run(client, f"SELECT * FROM {_rows_from(source)}", dry_run=True, use_query_cache=False)
    if not source.only:
        return list(job.schema)
    names = [field.name for field in job.schema]
    if unknown := [name for name in source.only if name not in names]:
        raise SourceError(
            f"sources.{source.name}.only: {unknown[0]!r} is no column of {source.path}; found {', '.join(names)}"
        )
    wanted = {*source.only, source.date_column, *source.columns.values()}
    return [field for field in job.schema if field.name in wanted]


def _query(
    schema: Sequence[Any], source: Source, day: dt.date, suite: Suite
) -> tuple[str, Parameters]:
    """SQL for the rows of `day` of a source with the columns of `schema`, and its parameters.

    The condition compares the bare column with constants, so that other partitions are not scanned. Rows
    without a date belong to the suite's first day, where cleaning names their reasons.
    """
    names = [field.name for field in schema]
    where = f"bigquery://{source.path}"
    check_header(source, names, where, suite)
    kinds = {field.name: field.field_type for field in schema}
    column, kind = f"t.`{source.date_column}`", kinds[str(source.date_column)]
    parameters: Parameters
    if kind == "DATE":
        condition, parameters = f"{column} = @day", {"day": ("DATE", day)}
    elif kind in ("TIMESTAMP", "DATETIME"):
        start, end = _bounds(day, suite)
        if kind == "DATETIME":
            start, end = (dt.datetime.combine(d, dt.time()) for d in (day, day + dt.timedelta(1)))
        condition = f"{column} >= @start AND {column} < @end"
        parameters = {"start": (kind, start), "end": (kind, end)}
    else:
        raise SourceError(
            f"{_place(source, suite)}.date_column: {source.date_column} is of type {kind}; "
            "accepted: DATE, TIMESTAMP, DATETIME"
        )
    if day == suite.first_day:
        condition = f"({condition}) OR {column} IS NULL"
    ids = assign(source, names, where, suite).get("record_id", [])
    order = [f"t.`{name}`" for name in ids if kinds[name] in ("STRING", "INTEGER")]
    order.append("FARM_FINGERPRINT(TO_JSON_STRING(t))")
    columns = ", ".join(f"t.`{name}`" for name in names)
    return (
        f"SELECT {columns} FROM {_rows_from(source)} AS t WHERE {condition} ORDER BY {', '.join(order)}",
        parameters,
    )


def _settings(source: Source, suite: Suite) -> dict[str, Any]:
    return {
        "maximum_bytes_billed": int(suite.bigquery.max_gb_billed * 1e9),
        "labels": {"gavel": "ingest", "gavel_source": label(source.name)},
    }


def _bounds(day: dt.date, suite: Suite) -> tuple[dt.datetime, dt.datetime]:
    """The instants at which `day` of the suite's time zone starts and ends."""
    starts = (dt.datetime.combine(d, dt.time(), suite.zone) for d in (day, day + dt.timedelta(1)))
    start, end = (instant.astimezone(dt.UTC) for instant in starts)
    return start, end


def _days_partition(day: dt.date, suite: Suite) -> tuple[dt.datetime, dt.datetime]:
    """The time that the partitions of `day` may be of.

    BigQuery cuts instants by UTC days and dates as they are written, so in another time zone it is all that either
    may be.
    """
    start, end = _bounds(day, suite)
    written = dt.datetime.combine(day, dt.time(), dt.UTC)
    return min(start, written), max(end, written + dt.timedelta(days=1))


_TELLING = ("partition_id", "total_rows", "total_logical_bytes", "last_modified_time")
_FORMS = {4: "%Y", 6: "%Y%m", 8: "%Y%m%d", 10: "%Y%m%d%H"}
"""How a partition is named, by the number of digits."""


def _partitions(source: Source, suite: Suite, connect: Connect) -> list[dict[str, Any]]:
    """What INFORMATION_SCHEMA.PARTITIONS says of the table, at most a few seconds old."""
    key = (source.path, suite.bigquery.project)
    when, found = _partitions_seen.get(key, (0.0, []))
    if not when or time.monotonic() - when > _FRESH:
        project, dataset, table = source.path.split(".")
        view = f"`{project}.{dataset}.INFORMATION_SCHEMA.PARTITIONS`"
        when = time.monotonic()
        with _open(source, suite, connect) as client:
            client.get_table(source.path, retry=patient())
            job = run(
                client,
                f"SELECT * FROM {view} WHERE table_name = @table",
                {"table": ("STRING", table)},
            )
            found = [dict(row.items()) for row in rows(job)]
        _partitions_seen[key] = (when, found)
    return found


def _span(partition: str | None) -> tuple[dt.datetime, dt.datetime] | None:
    """From when to when a partition reaches, UTC; None of one that no time names."""
    if partition is None or not partition.isdigit() or len(partition) not in _FORMS:
        return None
    start = dt.datetime.strptime(partition, _FORMS[len(partition)]).replace(tzinfo=dt.UTC)
    if len(partition) == 10:
        return start, start + dt.timedelta(hours=1)
    if len(partition) == 8:
        return start, start + dt.timedelta(days=1)
    if len(partition) == 6:
        return start, (start + dt.timedelta(days=31)).replace(day=1)
    return start, start.replace(year=start.year + 1)
