"""Source rows to canonical records, and to rejected rows with their reasons.

The rows are read twice: once for what a verdict on a row needs (its record id and its faults, both
narrow), once to write the records. So nothing wide is ever sorted, joined or held.
"""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from gavel.errors import SourceError
from gavel.logs.columns import SYNONYMS, assign
from gavel.logs.expressions import documents, filled, instant, literal, pointer, prepare
from gavel.logs.schema import CLEAN, RAW, REASONS, REJECTED
from gavel.logs.sources import files_of, no_files, read_raw
from gavel.store.files import replacing
from gavel.store.tables import ROW_GROUP, quoted, session, write_batches
from gavel.suite import Source, Suite

_TRUE = "(?i)true|t|yes|y|1|on"
_FALSE = "(?i)false|f|no|n|0|off"

_BIT = {reason: 1 << i for i, reason in enumerate(REASONS)}
"""A row's faults are one number while it is cleaned: the sum of its reasons' bits."""


@dataclass(frozen=True)
class CleanCounts:
    """Rows of a day: `raw` = `clean` + `rejected`; a rejected row counts under each reason."""

    raw: int
    clean: int
    rejected: int
    by_reason: dict[str, int]
    by_task: dict[str, int]


def write_raw(suite: Suite, day: dt.date, path: Path) -> int:
    """Write the rows of `day` of all sources to `path` (RAW); return how many there are.

    Raises:
        SourceError: a source has no file for the day, or cannot be read.
        StoreError: the table cannot be written.
    """
    sources = sorted(suite.sources, key=lambda source: source.name)
    have = [source.name for source in sources if files_of(source, day, suite)]
    for source in sources:
        if source.name not in have:
            raise no_files(source, day, suite, have)
    batches = (batch for source in sources for batch in read_raw(source, day, suite))
    return write_batches(path, RAW, _row_groups(batches))


def clean(
    suite: Suite, raw_path: Path, clean_path: Path, rejected_path: Path, tasks: Sequence[str]
) -> CleanCounts:
    """Write the records of `raw_path` (CLEAN) and the rows that are none (REJECTED).

    Equal input gives equal bytes. DuckDB keeps to the suite's memory_limit and spills into a
    temporary folder beside `clean_path`.

    Raises:
        SourceError: a configured column is in no row, or the rows' source is not in the suite.
        StoreError: a table cannot be written.
    """
    with (
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
        records = [_Records(source, found[source.name], suite, tasks) for source in sources]
        faults = _screen(connection, records)
        write_batches(pending, REJECTED, _row_groups(_rejected(connection, records)))
        write_batches(clean_path, CLEAN, _row_groups(_clean(connection, records, faults)))
        return _counts(connection, tasks)


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
        task = known[name].task
        if task is not None and task not in tasks:
            raise SourceError(
                f"{suite.file}: sources.{name}.task: {task!r} is not a task; "
                f"accepted: {', '.join(tasks)}"
            )
    return [known[name] for name in found]


class _Records:
    """The SQL that reads one source's rows as records, given the columns `found` in them."""

    def __init__(
        self, source: Source, found: list[str], suite: Suite, tasks: Sequence[str]
    ) -> None:
        self.source = source
        # Where no row can be read at all, a missing column is not what is wrong.
        where = f"any row of {source.path}"
        self.assigned = assign(source, found, where, suite) if found else {}
        self.columns = [column for columns in self.assigned.values() for column in columns]
        self.found = found
        self.tasks = ", ".join(map(literal, tasks)) or "NULL"

    def query(self, rows: str, columns: str = "*") -> str:
        """`columns` of the source's `rows` (RAW with `position`): CLEAN's, `faults` and more.

        A row keeps its place. A row without a fault of its own has `faults` 0; duplicates are not
        known here, since they are no matter of one row.
        """
        own = f"(SELECT * FROM {rows} WHERE source = {literal(self.source.name)})"
        paths = ", ".join(map(pointer, self.columns))
        values = f"json_extract_string(document, [{paths}]::VARCHAR[])"
        return f"""
            SELECT {columns} FROM (
                SELECT *, left(sha256(source || chr(31) || record_id), 32) AS row_id,
                       CAST(start_time AS DATE) AS created_date, {self._faults()} AS faults,
                       nullif(rest, '{{}}') AS extra
                FROM (SELECT *, {self._rest()} AS rest FROM (
                    SELECT * EXCLUDE (record_id, task, retail_info),
                           {_boolean("coverage_text")} AS out_of_coverage,
                           {instant("start_text")} AS start_time,
                           {instant("end_text")} AS end_time,
                           CASE WHEN document IS NOT NULL
                                THEN coalesce(record_id, 'content-' || md5(content))
                                END AS record_id,
                           coalesce(task, {self._default_task()}) AS task,
                           CASE WHEN json_valid(retail_info) THEN retail_info
                                ELSE CAST(to_json(retail_info) AS VARCHAR) END AS retail_info
                    FROM (
                        SELECT * EXCLUDE (record, cells)
                                 RENAME (file AS source_file, line AS source_line),
                               {self._texts()}
                        FROM (SELECT *, {values} AS cells FROM ({documents(own)}))))))"""

    def _texts(self) -> str:
        """Every field as text, null where it is blank."""
        renamed = {
            "start_time": "start_text",
            "end_time": "end_text",
            "out_of_coverage": "coverage_text",
        }
        place = {column: i for i, column in enumerate(self.columns, start=1)}
        texts = []
        for field in SYNONYMS:
            cells = [filled(f"cells[{place[column]}]") for column in self.assigned.get(field, [])]
            text = f"coalesce({', '.join(cells)})" if cells else "CAST(NULL AS VARCHAR)"
            texts.append(f"{text} AS {renamed.get(field, field)}")
        return ", ".join(texts)

    def _default_task(self) -> str:
        return "NULL" if self.source.task is None else literal(self.source.task)

    def _faults(self) -> str:
        conditions = {
            "empty_prompt": "prompt IS NULL",
            "empty_response": "response IS NULL",
            "missing_user_id": "user_id IS NULL",
            "missing_conversation_id": "conversation_id IS NULL",
            "malformed_timestamp": (
                "start_time IS NULL OR (end_text IS NOT NULL AND end_time IS NULL)"
            ),
            "end_before_start": "coalesce(end_time < start_time, false)",
            "unknown_task": f"coalesce(task NOT IN ({self.tasks}), true)",
        }
        total = " + ".join(
            f"CASE WHEN {condition} THEN {_BIT[reason]} ELSE 0 END"
            for reason, condition in conditions.items()
        )
        return f"""CAST(CASE WHEN text IS NULL THEN {_BIT["invalid_utf8"]}
            WHEN document IS NULL THEN {_BIT["unparseable_line"]}
            ELSE {total} END AS SMALLINT)"""

    def _rest(self) -> str:
        """The document without the columns that were taken.

        Of several columns of one field only the preferred one was taken for certain, and a truth
        value that is not understood was not taken at all: these stay, so that nothing is lost.
        """
        taken = {columns[0]: field for field, columns in self.assigned.items()}
        rest = "NULL" if set(self.found) <= set(taken) else _without(list(taken))
        without_truth = [column for column, field in taken.items() if field != "out_of_coverage"]
        if len(without_truth) == len(taken):
            return f"CAST({rest} AS VARCHAR)"
        return f"""CASE WHEN coverage_text IS NOT NULL AND out_of_coverage IS NULL
            THEN {_without(without_truth)} ELSE {rest} END"""


def _without(columns: list[str]) -> str:
    """SQL for the document without `columns`: in a JSON merge patch, null takes a key away."""
    patch = orjson.dumps(dict.fromkeys(columns)).decode()
    return f"CAST(json_merge_patch(document, {literal(patch)}) AS VARCHAR)"


def _boolean(text: str) -> str:
    return f"""CASE WHEN regexp_full_match(trim({text}), {literal(_TRUE)}) THEN true
                    WHEN regexp_full_match(trim({text}), {literal(_FALSE)}) THEN false END"""


def _screen(
    connection: duckdb.DuckDBPyConnection, records: list[_Records]
) -> npt.NDArray[np.int16]:
    """Fill the table `screened` (one narrow row a source row); return its faults by position.

    Of the rows of a source with one record id, the first without a fault stays, or the first of
    all if none is without; the others are duplicates.
    """
    connection.execute(
        "CREATE TEMP TABLE screened (position BIGINT, source VARCHAR, record_id VARCHAR, "
        "task VARCHAR, faults SMALLINT)"
    )
    for record in records:
        narrow = record.query("raw", "position, source, record_id, task, faults")
        connection.execute(f"INSERT INTO screened {narrow}")
    connection.execute(f"""
        UPDATE screened SET faults = screened.faults | {_BIT["duplicate_record_id"]} FROM (
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
    connection: duckdb.DuckDBPyConnection, records: list[_Records], faults: npt.NDArray[np.int16]
) -> Iterator[pa.RecordBatch]:
    """The batches of CLEAN. Looked up by position, not joined: a join need not keep the order."""
    columns = ", ".join(["position", *CLEAN.names])
    for record in records:
        rows = connection.sql(record.query("raw", columns)).to_arrow_reader(ROW_GROUP)
        for batch in rows:
            faultless = pa.array(faults[batch["position"].to_numpy()] == 0)
            yield batch.filter(faultless).select(CLEAN.names).cast(CLEAN)


def _rejected(
    connection: duckdb.DuckDBPyConnection, records: list[_Records]
) -> Iterator[pa.RecordBatch]:
    """The batches of REJECTED; only rows with faults are read as records again."""
    faulty = """(SELECT raw.*, screened.faults AS all_faults
                 FROM raw JOIN screened USING (position) WHERE screened.faults <> 0)"""
    reasons = ", ".join(
        f"CASE WHEN all_faults & {bit} <> 0 THEN {literal(reason)} END"
        for reason, bit in _BIT.items()
    )
    columns = f"""position, row_id, source, record_id, source_file, source_line, content,
        list_filter([{reasons}], lambda reason: reason IS NOT NULL) AS reasons"""
    queries = [record.query(faulty, columns) for record in records]
    if not queries:
        return
    rows = connection.sql(f"SELECT * FROM ({' UNION ALL '.join(queries)}) ORDER BY position")
    for batch in rows.to_arrow_reader(ROW_GROUP):
        # DuckDB can refuse bytes that are no text, but not replace them.
        shown = [content.decode("utf-8", "replace") for content in batch["content"].to_pylist()]
        yield (
            batch.append_column("content_text", pa.array(shown, pa.string()))
            .select(REJECTED.names)
            .cast(REJECTED)
        )


def _row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of ROW_GROUP, so that equal rows are equal bytes on disk.

    Readers cut their batches wherever blocks and threads happen to end.
    """
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


def _counts(connection: duckdb.DuckDBPyConnection, tasks: Sequence[str]) -> CleanCounts:
    conditions = ["true", "faults <> 0", *(f"faults & {bit} <> 0" for bit in _BIT.values())]
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
