"""Files of one format to batches of RAW: source rows verbatim, with the place they came from."""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from typing import IO

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from gavel.logs.columns import check_header
from gavel.logs.expressions import literal
from gavel.logs.schema import RAW
from gavel.settings.logs import Source
from gavel.store.tables import ROW_GROUP, session
from gavel.suite import Suite

BLOCK = 8 << 20
"""Bytes read at once: what reading a file holds in memory, as long as a row is shorter."""

_BOM = b"\xef\xbb\xbf"
_NO_LINES = {
    b"\x1f\x8b": "it is compressed with gzip, though its name does not end in .gz",
    b"\xff\xfe": "it is UTF-16; save it as UTF-8",
    b"\xfe\xff": "it is UTF-16; save it as UTF-8",
    b"PK\x03\x04": "it is a zip archive or a spreadsheet; unpack it, or save it as CSV",
}
"""What a file may start with that is no text in UTF-8, and what to tell of it."""
_LONGEST_CSV_FIELD = 1 << 20
"""Characters. A field never closed would otherwise take in the rest of the file."""


def read_jsonl(stream: IO[bytes], source: Source, file: str) -> Iterator[pa.RecordBatch]:
    """The lines of a JSONL `stream`. Whether they hold JSON is not looked at here."""
    before = 0
    for lines in _lines(stream):
        lines = [line.removesuffix(b"\r") for line in lines]
        first, before = before + 1, before + len(lines)
        numbers: range | list[int] = range(first, before + 1)
        if not all(map(bytes.strip, lines)):
            numbers = [number for number, line in zip(numbers, lines, strict=True) if line.strip()]
            lines = [line for line in lines if line.strip()]
        yield _batch(source, file, numbers, lines)


def read_csv(
    stream: IO[bytes], source: Source, file: str, suite: Suite
) -> Iterator[pa.RecordBatch]:
    """The rows of a comma-separated `stream` with a header; a quoted field may span lines.

    Raises:
        SourceError: the header lacks a needed column, or names one twice.
    """
    rows = _csv_rows(line for lines in _lines(stream) for line in lines)
    _, content, fields = next(rows, (1, b"", None))
    if not content:
        raise OSError("it is empty, without so much as a header")
    if b"\r" in content:
        raise OSError("its lines end in a carriage return alone; save it with line feeds")
    header = fields if fields is not None and _is_utf8(content) else []
    check_header(source, header, file, suite)
    numbers: list[int] = []
    contents: list[bytes] = []
    records: list[bytes | None] = []
    faults: list[str | None] = []
    size = 0
    for number, content, fields in rows:
        record, fault = None, None
        if not _is_utf8(content):
            fault = "invalid_utf8"
        elif fields is None or len(fields) != len(header):
            fault = "unparseable_line"
        else:
            record = orjson.dumps(dict(zip(header, fields, strict=True)))
        numbers.append(number)
        contents.append(content)
        records.append(record)
        faults.append(fault)
        size += len(content)
        if size >= BLOCK:
            yield _batch(source, file, numbers, contents, records, faults)
            numbers, contents, records, faults, size = [], [], [], [], 0
    yield _batch(source, file, numbers, contents, records, faults)


def read_parquet(
    stream: pa.NativeFile, source: Source, file: str, suite: Suite
) -> Iterator[pa.RecordBatch]:
    """The rows of a Parquet file as JSON objects, their keys the file's columns.

    Times with a zone are written in UTC, times without one as they stand.

    Raises:
        SourceError: the schema lacks a needed column.
    """
    parquet = pq.ParquetFile(stream)
    check_header(source, parquet.schema_arrow.names, file, suite)
    yield from rows_as_json(parquet.iter_batches(batch_size=ROW_GROUP), source, file)


def rows_as_json(
    batches: Iterable[pa.RecordBatch],
    source: Source,
    file: str,
    documents: Collection[str] = (),
) -> Iterator[pa.RecordBatch]:
    """The rows of `batches`, those of `file`, as batches of RAW: JSON objects, their keys the columns.

    The columns `documents` hold JSON already.
    """
    before = 0
    with session() as connection:
        for rows in batches:
            # Numbered names, since to DuckDB "ID" and "id" are one column.
            connection.register(
                "batch", rows.rename_columns([f"c{i}" for i in range(rows.num_columns)])
            )
            query = f"SELECT json_object({_json_pairs(rows.schema, documents)})::VARCHAR AS record FROM batch"
            record = connection.sql(query).to_arrow_table()["record"].combine_chunks()
            first, before = before + 1, before + rows.num_rows
            yield _batch(source, file, range(first, before + 1), record.cast(pa.binary()), record)


def _json_pairs(schema: pa.Schema, documents: Collection[str]) -> str:
    """The arguments of json_object for the columns c0, c1, ... of `schema`."""

    def value(number: int, field: pa.Field) -> str:
        if pa.types.is_floating(field.type):
            return f"nullif(c{number}, 'nan')"  # pandas writes a missing number as NaN
        if field.name in documents:
            return f"c{number}::JSON"
        return f"c{number}"

    return ", ".join(f"{literal(f.name)}, {value(i, f)}" for i, f in enumerate(schema))


def _lines(stream: IO[bytes]) -> Iterator[list[bytes]]:
    """The lines of `stream` in blocks, without their line feeds and without a BOM.

    Raises:
        OSError: it is compressed, or in an encoding that has no lines of UTF-8.
    """
    parts: list[bytes] = []
    start = True
    while block := stream.read(BLOCK):
        if start:
            for signature, sentence in _NO_LINES.items():
                if block.startswith(signature):
                    raise OSError(sentence)
            block, start = block.removeprefix(_BOM), False
        if b"\n" not in block:
            parts.append(block)
            continue
        lines = (b"".join(parts) + block).split(b"\n")
        parts = [lines.pop()]
        yield lines
    if last := b"".join(parts):
        yield [last]


def _csv_rows(lines: Iterator[bytes]) -> Iterator[tuple[int, bytes, list[str] | None]]:
    """Each row's first line number, its bytes, and its fields (None where quoting is broken).

    Reading resumes on the line after the first line of a broken row: one stray quote costs a line,
    not the rest of the file.
    """
    numbered = enumerate(lines, start=1)
    again: deque[tuple[int, bytes]] = deque()
    taken: list[tuple[int, bytes]] = []

    def feed() -> Iterator[str]:
        while line := again.popleft() if again else next(numbered, None):
            taken.append(line)
            yield line[1].decode("utf-8", "surrogateescape") + "\n"

    csv.field_size_limit(_LONGEST_CSV_FIELD)
    reader = csv.reader(feed(), strict=True)
    while True:
        taken.clear()
        fields: list[str] | None
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error:
            again.extendleft(reversed(taken[1:]))
            del taken[1:]
            fields = None
            reader = csv.reader(feed(), strict=True)
        content = b"\n".join(line for _, line in taken).removesuffix(b"\r")
        if content.strip():
            yield taken[0][0], content, fields


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _batch(
    source: Source,
    file: str,
    numbers: range | list[int],
    contents: list[bytes] | pa.Array,
    records: list[bytes | None] | pa.Array | None = None,
    faults: list[str | None] | None = None,
) -> pa.RecordBatch:
    rows = len(numbers)
    return pa.record_batch(
        [
            pa.repeat(source.name, rows),
            pa.repeat(file, rows),
            pa.array(numbers, pa.int64()),
            pa.array(contents, pa.binary()),
            pa.nulls(rows, pa.string()) if records is None else pa.array(records, pa.string()),
            pa.nulls(rows, pa.string()) if faults is None else pa.array(faults, pa.string()),
        ],
        schema=RAW,
    )
