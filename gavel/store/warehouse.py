"""The DuckDB warehouse: one table a task, a day replaced whole in one transaction.

The full table holds customers' words and stands in the schema `restricted`; the view of the same name in
`main` leaves free text out, for wide access.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import duckdb
import pyarrow as pa

from gavel.errors import StoreError
from gavel.store.files import write_failure
from gavel.store.tables import quoted

FREE_TEXT = (
    "user_id",
    "prompt",
    "response",
    "reference",
    "source_text",
    "rationale",
    "raw_response",
    "fault_detail",
    "retail_info",
    "extra",
)
"""Columns that may hold what a customer wrote or who they are: not in the view for wide access."""

_WAIT = 30.0
"""Seconds to wait for another process to let go of the file; DuckDB admits one writer."""
_GLANCE = 2.0
"""Seconds that one who only reads waits."""


@dataclass(frozen=True)
class About:
    """What is to be known of published rows: the run that publishes, and what the rubric's own columns mean.

    `required` are the columns that every valid row has.
    """

    run_id: str = ""
    meanings: Mapping[str, str] = field(default_factory=dict)
    required: Collection[str] = ()


_NOTHING = About()


class Publisher(Protocol):
    """A warehouse, wherever it is. Its text is its name to a person."""

    def publish(self, task: str, day: str, table: Path, about: About = ...) -> int:
        """Replace the rows of `day` by the valid rows of `table`, whole or not at all; return their number."""
        ...

    def published(self, task: str, row_id: str) -> Sequence[str]:
        """The days under which `row_id` is published, normally one or none."""
        ...

    def admit(self, task: str, schema: pa.Schema) -> None:
        """Look whether rows of `schema` could be published, and write nothing. Raises StoreError."""
        ...


class Warehouse:
    """The warehouse in `file`, made when first written to."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __str__(self) -> str:
        return str(self.file)

    def publish(self, task: str, day: str, table: Path, about: About = _NOTHING) -> int:
        """Replace the rows of `day` in `{task}_scores` by the valid rows of the Parquet file `table`.

        New columns are added, nullable; columns that `table` lacks become null. Returns the number of rows.

        Raises:
            StoreError: a column changed its type, another process holds the file, or the disk is full.
        """
        name = f"{task}_scores"
        with self._open() as connection:
            connection.execute("BEGIN")
            connection.execute("CREATE SCHEMA IF NOT EXISTS restricted")
            incoming = f"SELECT DATE '{day}' AS day, * FROM read_parquet({quoted(table)}) WHERE status = 'valid'"
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS restricted.{name} AS {incoming} LIMIT 0"
            )
            self._admit_columns(connection, name, incoming)
            connection.execute(f"DELETE FROM restricted.{name} WHERE day = DATE '{day}'")
            connection.execute(f"INSERT INTO restricted.{name} BY NAME {incoming}")
            columns = [column for column, _ in _columns(connection, f"FROM restricted.{name}")]
            open_to_all = ", ".join(f'"{c}"' for c in columns if c not in FREE_TEXT)
            connection.execute(
                f"CREATE OR REPLACE VIEW {name} AS SELECT {open_to_all} FROM restricted.{name}"
            )
            rows = connection.execute(
                f"SELECT count(*) FROM restricted.{name} WHERE day = DATE '{day}'"
            ).fetchall()[0][0]
            connection.execute("COMMIT")
        return int(rows)

    def published(self, task: str, row_id: str) -> Sequence[str]:
        """The days under which `row_id` is published, normally one or none.

        Raises:
            StoreError: another process holds the file.
        """
        if not self.file.exists():
            return []
        with self._open(read_only=True) as connection:
            try:
                rows = connection.execute(
                    f"SELECT DISTINCT day::VARCHAR FROM {task}_scores WHERE row_id = ? ORDER BY 1",
                    [row_id],
                ).fetchall()
            except duckdb.CatalogException:
                return []
        return [day for (day,) in rows]

    def admit(self, task: str, schema: pa.Schema) -> None:
        """Look whether rows of `schema` could be published, and write nothing.

        Raises:
            StoreError: a column holds another type, or another process holds the file.
        """
        if not self.file.exists():
            return
        name = f"{task}_scores"
        with self._open(read_only=True) as connection:
            try:
                there = dict(_columns(connection, f"FROM restricted.{name}"))
            except duckdb.CatalogException:
                return
            connection.register("incoming", schema.empty_table())
            for column, kind in _columns(connection, "FROM incoming"):
                self._admit_column(name, column, there.get(column, kind), kind)

    def _admit_columns(
        self, connection: duckdb.DuckDBPyConnection, name: str, incoming: str
    ) -> None:
        there = dict(_columns(connection, f"FROM restricted.{name}"))
        for column, kind in _columns(connection, incoming):
            if column not in there:
                connection.execute(f'ALTER TABLE restricted.{name} ADD COLUMN "{column}" {kind}')
            else:
                self._admit_column(name, column, there[column], kind)

    def _admit_column(self, name: str, column: str, there: str, kind: str) -> None:
        if there != kind:
            raise StoreError(
                f"{self.file}: {name}.{column} holds {there}, the new rows hold {kind}; "
                "give the dimension or label another name, or move the old table away"
            )

    @contextmanager
    def _open(self, read_only: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        wait = _GLANCE if read_only else _WAIT
        deadline = time.monotonic() + wait
        while True:
            try:
                connection = duckdb.connect(str(self.file), read_only=read_only)
                break
            except duckdb.IOException as error:
                if "Could not set lock" not in str(error):
                    raise StoreError(f"{self.file}: cannot be opened: {error}") from error
                if time.monotonic() > deadline:
                    raise StoreError(
                        f"{self.file}: another process has held it for {wait:.0f} s; close it and run again"
                    ) from error
                time.sleep(0.1)
        try:
            yield connection
        except duckdb.Error as error:
            if (sentence := write_failure(error)) is None:
                raise
            raise StoreError(f"{self.file}: {sentence}; the day keeps what it held") from error
        finally:
            connection.close()


def _columns(connection: duckdb.DuckDBPyConnection, query: str) -> list[tuple[str, str]]:
    rows = connection.execute(f"DESCRIBE {query}").fetchall()
    return [(name, kind) for name, kind, *_ in rows]
