"""Reading, writing and fingerprinting Parquet tables; DuckDB does the relational work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

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


def quoted(*files: Path) -> str:
    """`files` as an SQL literal for read_parquet: one string, or a list of them."""
    names = ["'" + str(file).replace("'", "''") + "'" for file in files]
    return names[0] if len(names) == 1 else f"[{', '.join(names)}]"


def write_batches(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    """Write `batches` as the whole content of `path`; return the number of rows."""
    rows = 0
    with (
        replacing(path) as temporary,
        pq.ParquetWriter(temporary, schema, compression="zstd") as writer,
    ):
        for batch in batches:
            writer.write_batch(batch, row_group_size=ROW_GROUP)
            rows += batch.num_rows
    return rows


def write_query(
    path: Path, connection: duckdb.DuckDBPyConnection, query: str, schema: pa.Schema
) -> int:
    """Write the result of `query`, cast to `schema`, as the whole content of `path`.

    The query must have an ORDER BY wherever order matters: equal rows then give equal bytes.
    Returns the number of rows.
    """
    reader = connection.sql(query).to_arrow_reader(ROW_GROUP)
    return write_batches(path, schema, _conformed(reader, schema))


def _conformed(reader: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in reader:
        yield batch.select(schema.names).cast(schema)


def row_count(path: Path) -> int:
    """The number of rows of a Parquet file, from its footer."""
    return int(pq.ParquetFile(path).metadata.num_rows)


def content_hash(path: Path, volatile: Iterable[str] = ()) -> str:
    """A 32-hex fingerprint of a table's rows in order, without its `volatile` columns.

    It does not depend on row groups, compression or dictionary encoding, so equal content written
    at another time or by another run has an equal fingerprint.
    """
    schema = pq.read_schema(path)
    columns = [name for name in schema.names if name not in set(volatile)]
    row = ", ".join(f'"{name}"' for name in columns)
    with session() as connection:
        connection.execute("SET preserve_insertion_order = true")
        count, first, second = connection.execute(
            f"""
            SELECT count(*),
                   coalesce(bit_xor(hash(file_row_number, {row})), 0),
                   coalesce(sum(hash({row}, file_row_number, 'gavel')::HUGEINT), 0)
            FROM read_parquet(?, file_row_number = true)
            """,
            [str(path)],
        ).fetchall()[0]
        (digest,) = connection.execute(
            "SELECT md5(?)", [f"{columns}|{count}|{first}|{second}"]
        ).fetchall()[0]
    return str(digest)
