"""Label files as people and Label Studio write them: CSV, JSON lines, JSON, Parquet; wide or long.

A file gives cells: one field of one record by one annotator, with where it stood. Nothing is judged
here but whether a row can be read.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from math import isnan
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from gavel.errors import LabelError

FORMATS = (".csv", ".jsonl", ".json", ".parquet")

CONTEXT = frozenset(
    {
        *(
            "row_id",
            "annotator",
            "task",
            "time",
            "place",
            "conversation_id",
            "context_id",
            "language",
        ),
        *("prompt", "response", "reference", "source_text", "comment"),
        *("id", "annotation_id", "created_at", "updated_at", "lead_time"),
    }
)
"""Columns of a wide row that are no field: whose it is, what is shown, what Label Studio adds."""


@dataclass(frozen=True)
class Cell:
    """One label as given; `fault` and nothing else where the row cannot be read."""

    file: str
    line: int
    row_id: str = ""
    annotator: str = ""
    task: str = ""
    field: str = ""
    value: Any = None
    time: str = ""
    fault: str | None = None


def label_files(folder: Path) -> list[Path]:
    """The label files below `folder`, in alphabetical order; hidden ones are none."""
    return [
        path
        for path in sorted(folder.rglob("*"))
        if path.suffix in FORMATS
        and path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]


def place_for(path: Path, folder: Path, columns: Mapping[str, str]) -> Path:
    """Where in `folder` a label file is kept: in the place of one it is a later version of, else its own.

    It is a later version of a file of its name that labels no record, by no annotator, that it does not. The
    sheets of every task and round have the same names.

    Raises:
        LabelError: the file cannot be read at all, or has no column for the record.
    """
    own = _labelled(path, columns)
    for number in count(1):
        # An underscore comes after the dot, so that the later file is read later.
        place = folder / (path.name if number == 1 else f"{path.stem}_{number}{path.suffix}")
        if not place.exists():
            return place
        with suppress(LabelError):
            if _labelled(place, columns) <= own:
                return place
    raise AssertionError("there is always a further number")


def _labelled(path: Path, columns: Mapping[str, str]) -> set[tuple[str, str]]:
    return {(cell.row_id, cell.annotator) for cell in read_file(path, columns)}


def read_file(path: Path, columns: Mapping[str, str]) -> Iterator[Cell]:
    """The cells of a label file; `columns` maps our names to the file's where they differ.

    Raises:
        LabelError: the file cannot be read at all, or has no column for the record.
    """
    try:
        rows = list(_rows(path))
    except UnicodeDecodeError as error:
        raise LabelError(f"{path}: is not UTF-8 text ({error.reason}); save it as UTF-8") from error
    except (OSError, orjson.JSONDecodeError, pa.ArrowException) as error:
        raise LabelError(f"{path}: cannot be read as {path.suffix[1:]} ({error})") from error
    yield from _cells(str(path), rows, columns)


def read_table(warehouse: Path, table: str, columns: Mapping[str, str]) -> Iterator[Cell]:
    """The cells of a table of the warehouse; its lines are numbered in the order of its rows.

    Raises:
        LabelError: there is no such warehouse or table.
    """
    origin = f"{warehouse}: {table}"
    if not warehouse.exists():
        raise LabelError(f"{origin}: there is no such warehouse yet; publish a day first")
    name = ".".join('"' + part.replace('"', '""') + '"' for part in table.split("."))
    try:
        with duckdb.connect(str(warehouse), read_only=True) as connection:
            found = connection.sql(f"FROM {name}").to_arrow_table().to_pylist()
    except duckdb.Error as error:
        raise LabelError(f"{origin}: cannot be read ({error})") from error
    yield from _cells(origin, list(enumerate(found, 1)), columns)


Row = tuple[int, Mapping[str, Any] | None]
"""The line, and the fields of the row there; None where they cannot be read."""


def _rows(path: Path) -> Iterator[Row]:
    if path.suffix == ".parquet":
        yield from enumerate(pq.read_table(path).to_pylist(), 1)
    elif path.suffix == ".json":
        document = orjson.loads(path.read_bytes())
        rows = document if isinstance(document, list) else [document]
        for number, row in enumerate(rows, 1):
            if isinstance(row, dict) and "annotations" in row and "data" in row:
                try:
                    flat = list(_label_studio(row))
                except (AttributeError, KeyError, TypeError):
                    yield number, None
                else:
                    yield from ((number, each) for each in flat)
            else:
                yield number, row if isinstance(row, dict) else None
    elif path.suffix == ".jsonl":
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            if line.strip():
                yield number, _object(line)
    else:
        yield from _csv(path)


def _csv(path: Path) -> Iterator[Row]:
    header: list[str] | None = None
    for line, fields in _csv_fields(path):
        if not any(field.strip() for field in fields):
            continue
        if header is None:
            header = [name.strip() for name in fields]
            if repeated := sorted({n for n in header if n and header.count(n) > 1}):
                raise LabelError(
                    f"{path}: has two columns {repeated[0]!r}; each field needs a column of its own"
                )
        else:
            whole = len(fields) == len(header)
            yield line, dict(zip(header, fields, strict=True)) if whole else None


def _csv_fields(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV file, each with the line that it ends on."""
    text = path.read_text(encoding="utf-8-sig")
    # A spreadsheet of another country separates by semicolons.
    first = text.split("\n", 1)[0]
    delimiter = ";" if first.count(";") > first.count(",") else ","
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    begin = 1
    try:
        for fields in reader:
            yield reader.line_num, fields
            begin = reader.line_num + 1
    except csv.Error as error:
        raise LabelError(
            f"{path}: cannot be read as csv: of the row that begins on line {begin}, {error}; a field that holds "
            'a quote stands in quotes itself, and has its own doubled: "a ""b"" c"'
        ) from error


def _object(line: bytes) -> Mapping[str, Any] | None:
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def _label_studio(task: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The annotations of one task of Label Studio's JSON export, each as a wide row."""
    for annotation in task["annotations"]:
        if annotation.get("was_cancelled"):
            continue
        by = annotation.get("completed_by")
        name = by.get("email") or by.get("id") if isinstance(by, dict) else by
        row = {
            "row_id": task["data"].get("row_id"),
            "task": task["data"].get("task"),
            "annotator": "" if name is None else str(name),
            "time": annotation.get("updated_at") or annotation.get("created_at"),
        }
        for result in annotation.get("result", ()):
            row[str(result.get("from_name"))] = _chosen(result.get("value", {}))
        yield row


def _chosen(value: Mapping[str, Any]) -> Any:
    """The value of one control: a choice, a rating, a number, or a text."""
    for kind in ("choices", "rating", "number", "text"):
        if kind in value:
            found = value[kind]
            return found[0] if isinstance(found, list) and len(found) == 1 else found
    return None


def _cells(origin: str, rows: Sequence[Row], columns: Mapping[str, str]) -> Iterator[Cell]:
    known = {given: own for own, given in columns.items()}
    if rows and not any(fields and "row_id" in _named(fields, known) for _, fields in rows):
        names = next((", ".join(fields) for _, fields in rows if fields), "nothing")
        raise LabelError(
            f"{origin}: has no column row_id; found {names}; name it under alignment.columns, as in "
            "columns: {row_id: item}"
        )
    for line, fields in rows:
        if fields is None:
            yield Cell(origin, line, fault="unparseable_line")
            continue
        row = _named(fields, known)
        own = {name: _text(row.get(name)) for name in ("row_id", "annotator", "task", "time")}
        if not own["time"]:
            own["time"] = _text(row.get("updated_at") or row.get("created_at"))
        for field, value in _fields(row):
            yield Cell(origin, line, field=field, value=value, **own)


def _named(fields: Mapping[str, Any], known: Mapping[str, str]) -> dict[str, Any]:
    """The fields under our names; pandas writes what is missing as NaN."""
    return {
        known.get(name, name): None if isinstance(value, float) and isnan(value) else value
        for name, value in fields.items()
    }


def _fields(row: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """(field, value) of a row: one of a long row, as many as are filled of a wide one."""
    if "field" in row and "value" in row:
        return [(_text(row["field"]), row["value"])]
    return [
        (name, value)
        for name, value in row.items()
        if name not in CONTEXT and value is not None and _text(value)
    ]


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()
