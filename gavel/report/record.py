"""The whole way of one record: source row, record, prompts as sent, answers, faults, score."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from gavel.errors import GavelError
from gavel.judge.evaluate import Asker, Judge, Previous
from gavel.judge.prompts import RECORD_COLUMNS, Record
from gavel.store.bucket import shown
from gavel.store.files import Store
from gavel.store.tables import quoted, session

Row = dict[str, Any]


class UnknownRecord(GavelError):
    """No table holds the row_id asked for."""


@dataclass
class Trace:
    """What every table says of one row_id; None or empty where it did not get that far."""

    row_id: str
    day: str
    task: str | None = None
    source: Row | None = None
    record: Row | None = None
    rejected: Row | None = None
    shard: Row | None = None
    attempts: list[Row] = field(default_factory=list)
    score: Row | None = None
    others: list[str] = field(default_factory=list)
    """Where else the row_id stands: record ids that start anew every day, or a rejected duplicate."""


def trace(store: Store, row_id: str, shards: int, day: str = "*") -> Trace:
    """Follow `row_id` through every table of the newest day that has it, or of `day`.

    `shards` is how many a day has now: files of shards that are no more are not looked at.

    Raises:
        UnknownRecord: neither a record nor a rejected row has it.
    """
    found = _locate(store, row_id, day)
    row_id = found.row_id
    row = found.record or found.rejected or {}
    sources = _select(
        [store.table("logs/raw", found.day)],
        "source = ? AND file = ? AND line = ?",
        [row["source"], row["source_file"], row["source_line"]],
    )
    found.source = sources[0] if sources else None
    if found.task is None:
        return found
    for name in ("verdicts", "regenerated", "opinions"):
        files = [store.table(f"{found.task}/{name}", found.day, str(n)) for n in range(shards)]
        order = "evaluator, attempt" if name == "opinions" else "attempt"
        found.attempts += _select(files, "row_id = ?", [row_id], order)
    parts = [store.table(f"{found.task}/shards", found.day, str(n)) for n in range(shards)]
    placed = _select(parts, "row_id = ?", [row_id])
    found.shard = placed[0] if placed else None
    scores = _select([store.table(f"{found.task}/scores", found.day)], "row_id = ?", [row_id])
    found.score = scores[0] if scores else None
    return found


def prompts_sent(
    judge: Callable[[str], Judge], found: Trace
) -> list[tuple[list[tuple[str, str]], bool]]:
    """The messages of each attempt, as (role, text), rendered again; `judge` gives that of an evaluator's name.

    The flag says whether their hash is the one the answer is kept under; where it is not, rubric or
    settings have changed since, and what was sent differed.
    """
    assert found.record is not None, "only a record has prompts"
    record = Record(**{name: found.record[name] for name in RECORD_COLUMNS})
    previous = Previous()
    sent: list[tuple[list[tuple[str, str]], bool]] = []
    for row in found.attempts:
        if row["attempt"] == 1:
            previous = Previous()
        request = Asker(judge(row["evaluator"]), row["attempt"]).request(record, previous)
        messages = (request.question.system, *request.messages)
        same = bool(request.request_hash == row["request_hash"])
        sent.append(([(message.role, message.content) for message in messages], same))
        previous = Previous(row["faults"], row["fault_detail"], row["raw_response"])
    return sent


def _locate(store: Store, row_id: str, day: str) -> Trace:
    tables = {
        name: _select(
            store.tables(f"logs/{name}"),
            "row_id = ?",
            [row_id.strip().lower()],
            "filename DESC, source_line",
            filename=True,
        )
        for name in ("clean", "rejected")
    }
    places = [
        (name, Path(row.pop("filename")).stem, row) for name, rows in tables.items() for row in rows
    ]
    for place in places:
        name, of_day, row = place
        if day in ("*", of_day):
            found = Trace(row["row_id"], of_day, row.get("task"))
            setattr(found, "record" if name == "clean" else "rejected", row)
            found.others = [_told(*other) for other in places if other is not place]
            return found
    raise UnknownRecord(
        f"no record and no rejected row {'' if day == '*' else f'of {day} '}has the row_id {row_id!r}; accepted: "
        f"32 hex digits, as in the column row_id of a table under {shown(store.root)}, of a day that was ingested"
        + "".join(f"\n{_told(*place)}" for place in places)
    )


def _told(table: str, day: str, row: Row) -> str:
    what = "a record" if table == "clean" else f"rejected ({', '.join(row['reasons'])})"
    return f"{day}: {what}, {row['source_file']}, line {row['source_line']}"


def _select(
    files: Sequence[Path],
    where: str,
    values: Sequence[Any],
    order: str = "1",
    filename: bool = False,
) -> list[Row]:
    there = [file for file in files if file.exists()]
    if not there:
        return []
    source = (
        f"read_parquet({quoted(*there)}, union_by_name = true, filename = {str(filename).lower()})"
    )
    with session() as connection:
        query = f"SELECT * FROM {source} WHERE {where} ORDER BY {order}"
        table: pa.Table = connection.sql(query, params=list(values)).to_arrow_table()
    return list(table.to_pylist())
