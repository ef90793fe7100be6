"""The scored records that labels are about, read from every day's scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from gavel.judge.releases import released_rubric
from gavel.judge.rubric import Rubric
from gavel.store.files import Store
from gavel.store.tables import quoted, session
from gavel.suite import Suite


def score_files(store: Store, task: str) -> list[Path]:
    """The scores of every day that has any, oldest first."""
    return store.tables(f"{task}/scores")


def scored_rubrics(suite: Suite, store: Store) -> dict[str, Rubric]:
    """The released rubric of every task that has scores."""
    return {
        task: released_rubric(store, task)
        for task in suite.task_names()
        if score_files(store, task)
    }


def scored_records(store: Store, task: str) -> Mapping[tuple[str, str], int]:
    """How many records of the task each evaluator scored, by evaluator and day."""
    query = (
        "SELECT evaluator, parse_filename(filename, true) AS day, count(DISTINCT row_id) "
        f"FROM ({_scores(store, task)}) GROUP BY ALL"
    )
    with session() as connection:
        return {(name, day): n for name, day, n in connection.execute(query).fetchall()}


def columns_of(store: Store, task: str) -> list[str]:
    """The columns of the task's scores, of any day."""
    with session() as connection:
        described = connection.execute(f"DESCRIBE {_scores(store, task)}").fetchall()
    return [name for name, *_ in described]


def tasks_of(store: Store, tasks: Iterable[str], row_ids: Sequence[str]) -> dict[str, str]:
    """The task of each of `row_ids` that is scored."""
    found: dict[str, str] = {}
    with session() as connection:
        connection.register("wanted", pa.table({"row_id": pa.array(row_ids, pa.string())}))
        for task in tasks:
            query = f"SELECT row_id FROM ({_scores(store, task)}) SEMI JOIN wanted USING (row_id)"
            found.update((row_id, task) for (row_id,) in connection.execute(query).fetchall())
    return found


def read_scores(
    store: Store, task: str, columns: Sequence[str], row_ids: Sequence[str] | None = None
) -> pa.Table:
    """`columns` of the task's scores and the `day` of each, in the order of row_id.

    `row_ids` chooses among them. A column that no day has is null.
    """
    there = set(columns_of(store, task))
    chosen = ", ".join(f'"{c}"' if c in there else f'NULL AS "{c}"' for c in columns)
    with session() as connection:
        semi = ""
        if row_ids is not None:
            connection.register("wanted", pa.table({"row_id": pa.array(row_ids, pa.string())}))
            semi = "SEMI JOIN wanted USING (row_id)"
        query = (
            f"SELECT {chosen}, parse_filename(filename, true) AS day "
            f"FROM ({_scores(store, task)}) {semi} ORDER BY row_id, day"
        )
        return connection.sql(query).to_arrow_table()


def rows_by_id(
    store: Store, task: str, columns: Sequence[str], row_ids: Sequence[str]
) -> Mapping[str, Mapping[str, Any]]:
    """The same as a mapping; of a row_id that several days have, the latest: ids may start anew each day."""
    table = read_scores(store, task, ["row_id", *columns], row_ids)
    return {row["row_id"]: row for row in table.to_pylist()}


def _scores(store: Store, task: str) -> str:
    files = quoted(*score_files(store, task))
    return f"SELECT * FROM read_parquet({files}, union_by_name = true, filename = true)"
