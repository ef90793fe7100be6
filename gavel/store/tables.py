"""Reading, writing and fingerprinting Parquet tables; DuckDB does the relational work."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from gavel.store.files import replacing

ROW_GROUP = 20_000
"""Rows a row group: small enough that a reader holds few in memory, large enough to compress."""


@contextmanager
def session(
    memory_limit: str = "2GB", timezone: str = "UTC", spill: Path | None = None
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A private in-memory DuckDB that spills to `spill` beyond `memory_limit`."""
    connection = duckdb.connect()
    try:
        connection.execute("SET memory_limit = ?", [memory_limit])
        connection.execute("SET TimeZone = ?", [timezone])
        connection.execute("SET threads = 2")
        if spill is not None:
            connection.execute("SET temp_directory = ?", [str(spill)])
        yield connection
    finally:
        connection.close()


def fetch(query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """The rows of one read-only `query`, on a connection that the process keeps: opening one takes 10 ms."""
    cursor = _kept_connection(os.getpid()).cursor()
    try:
        return cursor.execute(query, list(parameters)).fetchall()
    finally:
        cursor.close()


@lru_cache(maxsize=1)
def _kept_connection(process: int) -> duckdb.DuckDBPyConnection:
    """One a process: a child that was forked must not use its parent's threads."""
    connection = duckdb.connect(config={"threads": 2})
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def quoted(*files: Path) -> str:
    """`files` as an SQL literal for read_parquet: one string, or a list of them."""
    names = ["'" + str(file).replace("'", "''") + "'" for file in files]
    return names[0] if len(names) == 1 else f"[{', '.join(names)}]"


def write_batches(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    """Write `batches` as the whole content of `path`; return the number of rows.

    Equal rows in equal order give equal bytes, however the batches are cut.
    """
    rows = 0
    with (
        replacing(path) as temporary,
        pq.ParquetWriter(temporary, schema, compression="zstd") as writer,
    ):
        for batch in _row_groups(batches):
            writer.write_batch(batch, row_group_size=ROW_GROUP)
            rows += batch.num_rows
    return rows


def write_table(path: Path, table: pa.Table) -> None:
    """Write `table` as the whole content of `path`; see `write_batches`."""
    write_batches(path, table.schema, table.to_batches())


def _row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of ROW_GROUP; readers cut theirs wherever blocks and threads end."""
    pending: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        pending.append(batch)
        rows += batch.num_rows
        if rows >= ROW_GROUP:
            table = pa.Table.from_batches(pending).combine_chunks()
            whole = rows - rows % ROW_GROUP
            yield from table.slice(0, whole).to_batches(max_chunksize=ROW_GROUP)
            pending, rows = table.slice(whole).to_batches(), rows - whole
    if rows:
        yield from pa.Table.from_batches(pending).combine_chunks().to_batches()


def write_query(
    path: Path, connection: duckdb.DuckDBPyConnection, query: str, schema: pa.Schema
) -> int:
    """Write the result of `query`, cast to `schema`, as the whole content of `path`.

    The query must have an ORDER BY wherever order matters: equal rows then give equal bytes.
    Returns the number of rows.
    """
    return write_batches(path, schema, _conformed(connection, query, schema))


def _conformed(
    connection: duckdb.DuckDBPyConnection, query: str, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    for batch in connection.sql(query).to_arrow_reader(ROW_GROUP):
        yield batch.select(schema.names).cast(schema)


def row_count(path: Path) -> int:
    """The number of rows of a Parquet file, from its footer."""
    return int(pq.ParquetFile(path).metadata.num_rows)


def content_hash(path: Path, volatile: Iterable[str] = ()) -> str:
    """A 32-hex fingerprint of a table's rows in order, without its `volatile` columns.

    It does not depend on row groups, compression or dictionary encoding, so equal content written
    at another time or by another run has an equal fingerprint.
    """
    return _fingerprint(path, volatile, "file_row_number", "true")


def rows_hash(path: Path, condition: str) -> str:
    """A 32-hex fingerprint of the rows that fulfil the SQL `condition`, in whatever order they stand."""
    return _fingerprint(path, (), "0", condition)


def _fingerprint(path: Path, volatile: Iterable[str], place: str, condition: str) -> str:
    schema = pq.read_schema(path)
    columns = [name for name in schema.names if name not in set(volatile)]
    # DuckDB hashes a list that is null and one that is empty alike.
    lists = [name for name in columns if pa.types.is_nested(schema.field(name).type)]
    row = ", ".join([f'"{name}"' for name in columns] + [f'"{name}" IS NULL' for name in lists])
    count, first, second = fetch(f"""
        SELECT count(*),
               coalesce(bit_xor(hash({place}, {row})), 0),
               coalesce(sum(hash({row}, {place}, 'gavel')::HUGEINT), 0)
        FROM read_parquet({quoted(path)}, file_row_number = true) WHERE {condition}
    """)[0]
    return hashlib.md5(f"{columns}|{count}|{first}|{second}".encode()).hexdigest()


def repeated_values(path: Path, column: str) -> int:
    """How many rows hold a value of `column` that an earlier row holds too; nulls do not count."""
    return int(
        fetch(
            f'SELECT count("{column}") - count(DISTINCT "{column}") FROM read_parquet({quoted(path)})'
        )[0][0]
    )


def count_rows(files: Sequence[Path], condition: str) -> int:
    """How many rows of `files` fulfil the SQL `condition`."""
    return int(
        fetch(f"SELECT count(*) FROM read_parquet({quoted(*files)}) WHERE {condition}")[0][0]
    )


def count_reasons(files: Sequence[Path]) -> dict[str, int]:
    """How many rows of rejected logs have each reason, most frequent first; a row counts under each."""
    return dict(
        fetch(
            f"SELECT unnest(reasons) AS reason, count(*) FROM read_parquet({quoted(*files)}) "
            "GROUP BY reason ORDER BY count(*) DESC, reason"
        )
    )
