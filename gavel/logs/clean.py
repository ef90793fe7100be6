"""Source rows to canonical records, and to rejected rows with their reasons.

The rows are read twice: once for what a verdict on a row needs (its record id and its faults, both
narrow), once to write the records. So nothing wide is ever sorted, joined or held.
"""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from gavel.errors import SourceError, StoreError
from gavel.logs.expressions import documents, prepare
from gavel.logs.records import BIT, ROW_ID, Records
from gavel.logs.schema import CLEAN, RAW, REASONS, REJECTED
from gavel.logs.sources import check_task, fingerprint, no_files, read_raw
from gavel.settings.logs import Source
from gavel.store.bigquery import Connect, connected
from gavel.store.files import replacing
from gavel.store.tables import ROW_GROUP, quoted, session, write_batches
from gavel.suite import Suite


@dataclass(frozen=True)
class CleanCounts:
    """Rows of a day: `raw` = `clean` + `rejected`; a rejected row counts under each reason."""

    raw: int
    clean: int
    rejected: int
    by_reason: dict[str, int]
    by_task: dict[str, int]


def write_raw(suite: Suite, day: dt.date, path: Path, connect: Connect = connected) -> int:
    """Write the rows of `day` of all sources to `path` (RAW); return how many there are.

    Raises:
        SourceError: a source has no file for the day, or cannot be read.
        StoreError: the table cannot be written.
    """
    sources = sorted(suite.sources, key=lambda source: source.name)
    have = [s.name for s in sources if fingerprint(s, day, suite, connect) is not None]
    for source in sources:
        if source.name not in have:
            raise no_files(source, day, suite, have)
    batches = (batch for source in sources for batch in read_raw(source, day, suite, connect))
    return write_batches(path, RAW, batches)


def clean(
    suite: Suite, raw_path: Path, clean_path: Path, rejected_path: Path, tasks: Sequence[str]
) -> CleanCounts:
    """Write the records of `raw_path` (CLEAN) and the rows that are none (REJECTED).

    Equal input gives equal bytes. DuckDB keeps to the suite's memory_limit and spills into a
    temporary folder beside `clean_path`.

    Raises:
        SourceError: a configured column is in no row, or the rows' source is not in the suite.
        StoreError: a table cannot be written, or memory_limit is too little.
    """
    with (
        _enough_memory(suite, raw_path),
        replacing(rejected_path) as pending,
        _spill_folder(clean_path) as spill,
        session(suite.memory_limit, suite.timezone, spill) as connection,
    ):
        prepare(connection)
        connection.execute(f"""
            CREATE VIEW raw AS SELECT * RENAME (file_row_number AS position)
            FROM read_parquet({quoted(raw_path)}, file_row_number = true)""")
        found = _columns_found(connection)
        sources = _sources_of(suite, raw_path, found, tasks)
        records = [Records(source, found[source.name], suite, tasks) for source in sources]
        faults = _screen(connection, records)
        write_batches(pending, REJECTED, _rejected(connection, raw_path, faults))
        write_batches(clean_path, CLEAN, _clean(connection, records, faults))
        return _counts(connection, tasks)


@contextmanager
def _enough_memory(suite: Suite, raw_path: Path) -> Iterator[None]:
    try:
        yield
    except (duckdb.OutOfMemoryException, OSError) as error:
        # Where Arrow is reading DuckDB's answer, it is an OSError with DuckDB's words.
        if "Out of Memory Error" not in str(error):
            raise
        raise StoreError(
            f"{suite.file}: memory_limit: {suite.memory_limit} is too little to clean {raw_path}; "
            "set more (accepted: a number with MB or GB, such as 2GB)"
        ) from error


@contextmanager
def _spill_folder(beside: Path) -> Iterator[Path]:
    """A folder that DuckDB makes when it spills, gone afterwards, and after a killed run's next."""
    folder = beside.with_name(f".{beside.stem}.spill")
    shutil.rmtree(folder, ignore_errors=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _columns_found(connection: duckdb.DuckDBPyConnection) -> dict[str, list[str]]:
    """The top-level keys of each source's rows, in alphabetical order."""
    rows = connection.execute(f"""
        WITH shapes AS (SELECT DISTINCT source, json_keys(document) AS names
                        FROM ({documents("raw")}))
        SELECT source, list(DISTINCT name ORDER BY name) FILTER (name IS NOT NULL)
        FROM shapes LEFT JOIN LATERAL (SELECT unnest(names) AS name) ON true
        GROUP BY source ORDER BY source""").fetchall()
    return {source: names or [] for source, names in rows}


def _sources_of(
    suite: Suite, raw_path: Path, found: dict[str, list[str]], tasks: Sequence[str]
) -> list[Source]:
    """The sources of the rows, in the order of the rows."""
    known = {source.name: source for source in suite.sources}
    for name in found:
        if name not in known:
            raise SourceError(
                f"{raw_path}: holds rows of the source {name!r}, which {suite.file} does not "
                f"name; accepted: {', '.join(sorted(known))}; materialise logs/raw again"
            )
        check_task(known[name], suite, tasks)
    return [known[name] for name in found]


def _screen(connection: duckdb.DuckDBPyConnection, records: list[Records]) -> npt.NDArray[np.int16]:
    """Fill the table `screened` (one narrow row a source row); return its faults by position.

    Of the rows of a source with one record id, the first without a fault stays, or the first of
    all if none is without; the others are duplicates.
    """
    connection.execute(
        "CREATE TEMP TABLE screened (position BIGINT, source VARCHAR, record_id VARCHAR, "
        "task VARCHAR, faults SMALLINT)"
    )
    for record in records:
        narrow = record.query("position, source, record_id, task, faults")
        connection.execute(f"INSERT INTO screened {narrow}")
    connection.execute(f"""
        UPDATE screened SET faults = screened.faults | {BIT["duplicate_record_id"]} FROM (
            SELECT position, row_number() OVER (
                PARTITION BY source, record_id ORDER BY faults <> 0, position) AS nth
            FROM screened SEMI JOIN (
                SELECT source, record_id FROM screened WHERE record_id IS NOT NULL
                GROUP BY ALL HAVING count(*) > 1) USING (source, record_id)
        ) AS ranked WHERE ranked.position = screened.position AND nth > 1""")
    screened = connection.sql("SELECT faults FROM screened ORDER BY position").fetchnumpy()
    faults: npt.NDArray[np.int16] = screened["faults"]
    return faults


def _clean(
    connection: duckdb.DuckDBPyConnection, records: list[Records], faults: npt.NDArray[np.int16]
) -> Iterator[pa.RecordBatch]:
    """The batches of CLEAN. Looked up by position, not joined: a join need not keep the order."""
    columns = ", ".join(["position", *CLEAN.names])
    for record in records:
        rows = connection.sql(record.query(columns)).to_arrow_reader(ROW_GROUP)
        for batch in rows:
            faultless = pa.array(faults[batch["position"].to_numpy()] == 0)
            yield batch.filter(faultless).select(CLEAN.names).cast(CLEAN)


def _rejected(
    connection: duckdb.DuckDBPyConnection, raw_path: Path, faults: npt.NDArray[np.int16]
) -> Iterator[pa.RecordBatch]:
    """The batches of REJECTED, from the rows as they are and what `screened` says of them."""
    named = connection.sql(f"""
        SELECT {ROW_ID} AS row_id, record_id FROM screened
        WHERE faults <> 0 ORDER BY position""").to_arrow_table()
    read, done = 0, 0
    with pq.ParquetFile(raw_path) as raw:
        for rows in raw.iter_batches(ROW_GROUP):
            codes = faults[read : read + rows.num_rows]
            read += rows.num_rows
            batch = rows.filter(pa.array(codes != 0))
            kinds, kind = np.unique(codes[codes != 0], return_inverse=True)
            reasons = [[reason for reason, bit in BIT.items() if code & bit] for code in kinds]
            names = named.slice(done, batch.num_rows).combine_chunks()
            done += batch.num_rows
            # Arrow can refuse bytes that are no text, but not replace them.
            shown = [content.decode("utf-8", "replace") for content in batch["content"].to_pylist()]
            columns = {
                "row_id": names["row_id"],
                "source": batch["source"],
                "record_id": names["record_id"],
                "source_file": batch["file"],
                "source_line": batch["line"],
                "reasons": pa.array(reasons, pa.list_(pa.string())).take(pa.array(kind)),
                "content": batch["content"],
                "content_text": pa.array(shown, pa.string()),
            }
            yield from pa.table(columns, schema=REJECTED).to_batches()


def _counts(connection: duckdb.DuckDBPyConnection, tasks: Sequence[str]) -> CleanCounts:
    conditions = ["true", "faults <> 0", *(f"faults & {bit} <> 0" for bit in BIT.values())]
    counted = ", ".join(f"count(*) FILTER (WHERE {condition})" for condition in conditions)
    raw, rejected, *numbers = connection.execute(f"SELECT {counted} FROM screened").fetchall()[0]
    per_task = dict(
        connection.execute(
            "SELECT task, count(*) FROM screened WHERE faults = 0 GROUP BY task"
        ).fetchall()
    )
    return CleanCounts(
        raw=raw,
        clean=raw - rejected,
        rejected=rejected,
        by_reason=dict(zip(REASONS, numbers, strict=True)),
        by_task={task: per_task.get(task, 0) for task in tasks},
    )
