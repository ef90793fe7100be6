"""Where the rows of a day are: the files of a source, and the rows of a day in them."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs

from gavel.errors import SourceError
from gavel.logs import bigquery
from gavel.logs.columns import assign, check_header
from gavel.logs.expressions import documents, instant, pointer, prepare
from gavel.logs.readers import read_csv, read_jsonl, read_parquet
from gavel.settings.logs import Source
from gavel.store.bigquery import Connect, connected
from gavel.store.bucket import filesystem_of, shown
from gavel.store.tables import session
from gavel.suite import Suite

_DAY = re.compile(r"\{day(?::([^{}]*))?\}")
_DIRECTIVES = {"Y": r"\d{4}", "m": r"\d{2}", "d": r"\d{2}", "j": r"\d{3}"}


_LOOKED_AT = 1_000
"""Rows of a source that a check of the settings looks at."""


@dataclass(frozen=True)
class LogFile:
    """A file of a source: `name` as the suite would write it, `location` in its `filesystem`."""

    name: str
    filesystem: pa.fs.FileSystem
    location: str
    size: int
    mtime_ns: int | None


def read_raw(
    source: Source, day: dt.date, suite: Suite, connect: Connect = connected
) -> Iterator[pa.RecordBatch]:
    """The source's rows of `day` as batches of RAW, ordered by file and line.

    With a day in the path, a day's rows are those of its files. With a `date_column`, they are
    those whose date in the suite's time zone is `day`; rows whose date cannot be read belong to the
    earliest day of the source that the suite evaluates, where cleaning names their reasons.

    Raises:
        SourceError: there is no file, a file cannot be read, or a needed column is missing.
    """
    if source.format == "bigquery":
        yield from bigquery.read_day(source, day, suite, connect)
        return
    files = files_of(source, day, suite)
    if not files:
        raise no_files(source, day, suite)
    if _has_day(source, suite):
        yield from _read(source, files, suite)
    else:
        yield from _rows_of_day(source, files, day, suite)


def files_of(source: Source, day: dt.date, suite: Suite) -> list[LogFile]:
    """The source's files that may hold rows of `day`, in the order of their names.

    Raises:
        SourceError: the path does not tell the day, or its folder cannot be listed.
    """
    _has_day(source, suite)
    pattern = _DAY.sub(lambda hit: day.strftime(hit[1] or "%Y-%m-%d"), source.path)
    return sorted((f for f, _ in _matching(source, pattern, suite)), key=lambda f: f.name.encode())


def no_files(source: Source, day: dt.date, suite: Suite, others: Sequence[str] = ()) -> SourceError:
    """The error that says which file of `day` is missing, and which `others` have theirs."""
    if source.format == "bigquery":
        return SourceError(
            f"{shown(suite.file)}: sources.{source.name}.path: {source.path} has no partition of {day}"
            + (f", though {', '.join(others)} has rows of that day" if others else "")
            + "; load the day, or correct the path"
        )
    path = _DAY.sub(lambda hit: day.strftime(hit[1] or "%Y-%m-%d"), source.path)
    if "://" not in path:
        path = shown(suite.path(path))
    return SourceError(
        f"{suite.file}: sources.{source.name}.path: there is no file {path} for {day}"
        + (f", though {', '.join(others)} has files of that day" if others else "")
        + "; put it there, or correct the path (accepted: a file name, a folder's files by *, "
        "the day by {day} or {day:%Y/%m/%d})"
    )


def check_task(source: Source, suite: Suite, tasks: Sequence[str]) -> None:
    """Check that the source's task, if it has one, is one of `tasks`. Raises SourceError."""
    if source.task is not None and source.task not in tasks:
        raise SourceError(
            f"{suite.file}: sources.{source.name}.task: {source.task!r} is not a task; "
            f"accepted: {', '.join(tasks)}"
        )


def check_source(
    source: Source, suite: Suite, connect: Connect = connected
) -> tuple[list[dt.date], dict[str, list[str]]]:
    """Look at the settings of `source` and at the first rows it has.

    Returns its days with files (none for one with a `date_column`), and the columns that are taken for each
    field of a record.

    Raises:
        SourceError: no file is there, a file cannot be read, or a field that every record needs has no column.
    """
    check_task(source, suite, suite.task_names())
    if source.format == "bigquery":
        taken = bigquery.columns_of(source, suite, connect)
        return bigquery.days_of(source, suite, connect), taken
    found = days(source, suite)
    day = found[0] if found else suite.first_day
    files = files_of(source, day, suite)
    if not files:
        raise no_files(source, day, suite)
    with session() as connection:
        prepare(connection)
        first = next((batch for batch in _read(source, files, suite) if batch.num_rows), None)
        if first is None:
            return found, {}
        connection.register("batch", first.slice(0, _LOOKED_AT))
        names = connection.execute(
            f"SELECT DISTINCT unnest(json_keys(document)) AS name FROM ({documents('batch')}) ORDER BY name"
        ).fetchall()
    columns = [name for (name,) in names]
    check_header(source, columns, files[0].name, suite)
    return found, assign(source, columns, files[0].name, suite)


def days(source: Source, suite: Suite) -> list[dt.date]:
    """The days that the source has files of, in order; none for a source with a `date_column`.

    Raises:
        SourceError: the path's folder cannot be listed.
    """
    if not _has_day(source, suite):
        return []
    return sorted({day for _, day in _matching(source, source.path, suite) if day is not None})


def fingerprint(
    source: Source, day: dt.date, suite: Suite, connect: Connect = connected
) -> str | None:
    """32 hex digits that change when a file that may hold rows of `day` comes, grows or changes.

    Made of names, sizes and modification times, without reading a file, or of the same of a table's partitions;
    None where there is none.

    Raises:
        SourceError: the path's folder cannot be listed.
    """
    if source.format == "bigquery":
        return bigquery.fingerprint_of(source, day, suite, connect)
    files = files_of(source, day, suite)
    if not files:
        return None
    seen = "\n".join(f"{file.name}\x1f{file.size}\x1f{file.mtime_ns}" for file in files)
    return hashlib.sha256(seen.encode()).hexdigest()[:32]


def by_day(source: Source, suite: Suite) -> bool:
    """Whether a file of the source, or a partition of its table, holds rows of one day alone.

    Raises:
        SourceError: the path holds something like a day that does not name one.
    """
    return source.format == "bigquery" or _has_day(source, suite)


def undated_since(source: Source, day: dt.date, suite: Suite) -> str | None:
    """What of the suite's first day decides whether `day` has the rows without a date; None where nothing does.

    Of files, which day is the earliest is known only when they are read, so it is the first day itself; of a
    table, which costs more to read, whether `day` is the first.
    """
    if source.format == "bigquery":
        return str(day == suite.first_day)
    return None if _has_day(source, suite) else suite.first_day.isoformat()


def _has_day(source: Source, suite: Suite) -> bool:
    """Whether the path tells the day; else the source's `date_column` does.

    Raises:
        SourceError: the path holds something like a day that does not name one.
    """
    formats = "".join(hit[1] or "%Y-%m-%d" for hit in _DAY.finditer(source.path))
    if not formats:
        if source.date_column is not None:
            return False
    else:
        directives = set(re.findall(r"%(.)", formats))
        whole_day = {"Y", "m", "d"} <= directives or {"Y", "j"} <= directives
        if whole_day and directives <= set(_DIRECTIVES):
            return True
    raise SourceError(
        f"{suite.file}: sources.{source.name}.path: {source.path!r} does not tell one day from "
        "another; accepted: {day}, or {day:...} with %Y, %m and %d (or %Y and %j)"
    )


def _matching(
    source: Source, pattern: str, suite: Suite
) -> Iterator[tuple[LogFile, dt.date | None]]:
    """The files that match `pattern`, each with the day its name tells, if the pattern holds one."""
    special = re.search(r"[{*]", pattern)
    cut = pattern.rfind("/", 0, special.start() if special else None) + 1
    prefix, rest = pattern[:cut], pattern[cut:]
    try:
        place = prefix if "://" in prefix else shown(suite.path(prefix).absolute())
        if "://" in place:
            filesystem, folder = filesystem_of(place)
        else:
            filesystem, folder = pa.fs.LocalFileSystem(), place
        folder = folder.rstrip("/")
        if special:
            selector = pa.fs.FileSelector(
                folder or "/", recursive="/" in rest, allow_not_found=True
            )
            found = filesystem.get_file_info(selector)
        else:
            found = filesystem.get_file_info([f"{folder}/{rest}"])
    except (OSError, pa.ArrowInvalid, NotImplementedError) as error:
        raise SourceError(
            f"{suite.file}: sources.{source.name}.path: {prefix} cannot be listed "
            f"({_short(error)}); accepted: a folder, or a URI that pyarrow knows such as gs://"
        ) from error
    matches = re.compile(_regex(rest))
    for info in found:
        relative = info.path[len(folder) + 1 :]
        if info.type != pa.fs.FileType.File or not (hit := matches.fullmatch(relative)):
            continue
        file = LogFile(prefix + relative, filesystem, info.path, info.size, info.mtime_ns)
        if not (values := hit.groupdict()):
            yield file, None
        elif day := _day_from(values):
            yield file, day


def _regex(pattern: str) -> str:
    """`pattern` as a regular expression with a group for each first directive of its days."""
    seen: set[str] = set()

    def directive(hit: re.Match[str]) -> str:
        name = hit[1]
        if name in seen:
            return f"(?P={name})"
        seen.add(name)
        return f"(?P<{name}>{_DIRECTIVES[name]})"

    parts: list[str] = []
    for token in re.split(r"(\{day(?::[^{}]*)?\}|\*)", pattern):
        if token == "*":
            # As in a shell: not across folders, and no hidden files (temporary ones, mostly).
            at_start = "".join(parts)[-1:] in ("", "/")
            parts.append(r"(?!\.)[^/]*" if at_start else "[^/]*")
        elif day := _DAY.fullmatch(token):
            parts.append(re.sub(r"%(\w)", directive, re.escape(day[1] or "%Y-%m-%d")))
        else:
            parts.append(re.escape(token))
    return "".join(parts)


def _day_from(values: dict[str, str]) -> dt.date | None:
    fields = [name for name in "Yjmd" if name in values]
    try:
        return dt.datetime.strptime(
            " ".join(values[name] for name in fields), " ".join(f"%{name}" for name in fields)
        ).date()
    except ValueError:
        return None


def _read(source: Source, files: list[LogFile], suite: Suite) -> Iterator[pa.RecordBatch]:
    for file in files:
        try:
            if source.format == "parquet":
                with file.filesystem.open_input_file(file.location) as stream:
                    yield from read_parquet(stream, source, file.name, suite)
            else:
                with file.filesystem.open_input_stream(file.location) as stream:
                    if source.format == "csv":
                        yield from read_csv(stream, source, file.name, suite)
                    else:
                        yield from read_jsonl(stream, source, file.name)
        except (OSError, pa.ArrowInvalid) as error:
            raise SourceError(
                f"{suite.file}: sources.{source.name}.path: {file.name} cannot be read as "
                f"{source.format} ({_short(error)}); accepted: a whole, readable {source.format} "
                "file" + ("" if source.format == "parquet" else ", plain or .gz")
            ) from error


def _rows_of_day(
    source: Source, files: list[LogFile], day: dt.date, suite: Suite
) -> Iterator[pa.RecordBatch]:
    unreadable_are_ours: bool | None = None
    for batch, dates in _dated(source, files, suite):
        ours = pc.fill_null(pc.equal(dates, day), False)
        if dates.null_count:
            if unreadable_are_ours is None:
                unreadable_are_ours = _earliest(source, files, day, suite) == day
            if unreadable_are_ours:
                ours = pc.or_(ours, pc.is_null(dates))
        yield batch.filter(ours)


def _earliest(source: Source, files: list[LogFile], day: dt.date, suite: Suite) -> dt.date:
    """The source's earliest day that is evaluated, or just some day before `day`."""
    earliest: dt.date | None = None
    for _, dates in _dated(source, files, suite):
        evaluated = dates.filter(pc.greater_equal(dates, suite.first_day))
        first = pc.min(evaluated).as_py()
        if first is not None and (earliest is None or first < earliest):
            earliest = first
            if earliest < day:
                break
    return earliest or suite.first_day


def _dated(
    source: Source, files: list[LogFile], suite: Suite
) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
    """Each batch with its rows' dates in the suite's time zone, null where they cannot be read.

    Raises:
        SourceError: no row holds the date column.
    """
    column = pointer(source.date_column or "")
    rows, dated = 0, 0
    with session(timezone=suite.timezone) as connection:
        prepare(connection)
        for batch in _read(source, files, suite):
            connection.register("batch", batch)
            read = connection.sql(f"""
                SELECT text, CAST({instant("text")} AS DATE) AS date FROM (
                    SELECT json_extract_string(document, {column}) AS text
                    FROM ({documents("batch")}))""").to_arrow_table()
            rows += batch.num_rows
            dated += batch.num_rows - read["text"].null_count
            yield batch, read["date"].combine_chunks()
    if rows and not dated:
        raise SourceError(
            f"{suite.file}: sources.{source.name}.date_column: no row of {source.path} holds "
            f"{source.date_column!r}; name the column that tells a row's time"
        )


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
