"""Cells of label files to the table of labels: each is usable, or rejected with every reason."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gavel.agreement.annotators import consensus
from gavel.alignment.files import Cell, label_files, read_file, read_table
from gavel.alignment.population import scored_rubrics, tasks_of
from gavel.alignment.schema import LABELS
from gavel.errors import LabelError
from gavel.judge.rubric import Dimension, Rubric
from gavel.store.files import Store
from gavel.suite import Suite


def read_labels(suite: Suite, store: Store) -> pa.Table:
    """Every label of the suite's folder and table, in the order of files and lines.

    A file or table that cannot be read at all is one rejected row, so that it harms no other.
    """
    settings = suite.alignment
    cells: list[Cell] = []
    for path in label_files(suite.path(settings.labels)):
        cells += _or_fault(str(path), partial(read_file, path, settings.columns))
    if (table := settings.table) is not None:
        warehouse = suite.path(suite.warehouse)
        cells += _or_fault(table, partial(read_table, warehouse, table, settings.columns))
    return check_labels(suite, store, cells)


def _or_fault(origin: str, read: Callable[[], Iterable[Cell]]) -> list[Cell]:
    try:
        return list(read())
    except LabelError as error:
        return [Cell(origin, 0, fault="unreadable_file", value=str(error))]


def check_labels(suite: Suite, store: Store, cells: Sequence[Cell]) -> pa.Table:
    """The table of `cells`, in their order."""
    rubrics = scored_rubrics(suite, store)
    tasks = tasks_of(store, rubrics, sorted({cell.row_id for cell in cells if cell.row_id}))
    rows = [_row(suite, cell, tasks, rubrics) for cell in cells]
    _mark_repeated(rows)
    _mark_mismatched(rows, rubrics)
    for row in rows:
        row["status"] = "rejected" if row["reasons"] else "valid"
        row["detail"] = "; ".join(row["detail"]) or None
    return pa.Table.from_pylist(rows, schema=LABELS)


def sentences(table: pa.Table, most: int = 20) -> list[str]:
    """What is wrong with the rejected labels, a sentence each with file and line; then how many more."""
    rejected = [row for row in table.to_pylist() if row["status"] == "rejected"]
    told = [f"{row['file']}, line {row['line']}: {row['detail']}" for row in rejected[:most]]
    if len(rejected) > most:
        told.append(f"and {len(rejected) - most:,} more; all are in alignment/labels")
    return told


def missing_labels(suite: Suite) -> str:
    """How to provide labels, for someone who has none."""
    folder = suite.path(suite.alignment.labels)
    return (
        f"no labels yet: materialise alignment/sample, give people the sheets of `gavel sheets`, and put "
        f"what they fill in under {folder} (docs/trust.md)"
    )


@dataclass(frozen=True)
class Reference:
    """What people say of one field of one record: the value, how it was settled, and each annotator's own."""

    value: str | float | None
    settled: str
    by_annotator: Mapping[str, str | float]


def references(
    table: pa.Table, adjudicators: Sequence[str]
) -> dict[tuple[str, str], dict[str, Reference]]:
    """(task, field) -> row_id -> what people say, of the usable labels.

    An adjudicator's label decides (the first of `adjudicators` who gave one); else the majority for a
    label, whose tie is no value, or the mean for a dimension. Adjudicators do not count among the annotators.
    """
    given: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    usable = table.filter(pc.field("status") == "valid")
    names = ("task", "field", "row_id", "annotator", "value", "number")
    columns = [usable[name].to_pylist() for name in names]
    for task, field, row_id, annotator, text, number in zip(*columns, strict=True):
        # Only a dimension's value is a number.
        value = text if number is None else number
        given.setdefault((task, field), {}).setdefault(row_id, {})[annotator] = value
    return {
        field: {row_id: settle(labels, adjudicators) for row_id, labels in sorted(items.items())}
        for field, items in sorted(given.items())
    }


def settle(labels: Mapping[str, Any], adjudicators: Sequence[str]) -> Reference:
    """One reference of the labels of one field of one record, by annotator."""
    own = {name: value for name, value in sorted(labels.items()) if name not in adjudicators}
    if (judge := next((name for name in adjudicators if name in labels), None)) is not None:
        return Reference(labels[judge], "adjudicator", own)
    value = consensus(list(own.values()))
    if len(own) == 1:
        return Reference(value, "single", own)
    if isinstance(value, float):
        return Reference(value, "mean", own)
    return Reference(value, "majority" if value is not None else "tie", own)


def _row(
    suite: Suite, cell: Cell, tasks: Mapping[str, str], rubrics: Mapping[str, Rubric]
) -> dict[str, Any]:
    """The row of a cell, its reasons so far and their details."""
    reasons: list[str] = []
    detail: list[str] = []

    def wrong(reason: str, told: str) -> None:
        reasons.append(reason)
        detail.append(told)

    row: dict[str, Any] = {
        "row_id": cell.row_id or None,
        "task": tasks.get(cell.row_id, cell.task or None),
        "field": cell.field or None,
        "annotator": cell.annotator or None,
        "value": None if cell.value is None else str(cell.value).strip(),
        "number": None,
        "time": None,
        "reasons": reasons,
        "detail": detail,
        "file": cell.file,
        "line": cell.line,
    }
    if cell.fault is not None:
        wrong(cell.fault, row["value"] or "fields and header do not match, or it is no JSON object")
        return row
    if not cell.row_id:
        wrong("missing_row_id", "has no row_id")
    elif cell.row_id not in tasks:
        wrong("unknown_row_id", f"row_id {cell.row_id!r} is of no scored record")
    elif cell.task and cell.task != tasks[cell.row_id]:
        wrong("wrong_task", f"task is {cell.task!r}; the record is of {tasks[cell.row_id]!r}")
    if not cell.annotator:
        wrong("missing_annotator", "says not who labelled it: annotator is empty")
    if cell.time:
        try:
            row["time"] = _time(cell.time, suite)
        except (ValueError, OverflowError):
            wrong(
                "malformed_time",
                f"time is {cell.time!r}; accepted: ISO 8601, of the years 1 to 9999 in UTC",
            )
    if not row["value"]:
        wrong("missing_value", f"{cell.field or 'the field'} has no value")
    elif cell.row_id in tasks:
        fault = _outside(rubrics[tasks[cell.row_id]], cell.field, row)
        if fault is not None:
            wrong(*fault)
    return row


def _outside(rubric: Rubric, field: str, row: dict[str, Any]) -> tuple[str, str] | None:
    """Why the value is none of the rubric's; a dimension's number is put into the row."""
    dimension = next((d for d in rubric.dimensions if d.name == field), None)
    if dimension is not None:
        return _not_in_range(dimension, row)
    accepted = rubric.label_values.get(field)
    if accepted is None:
        return (
            "unknown_field",
            f"{field!r} is no field of {rubric.task}; accepted: {', '.join(rubric.columns)}",
        )
    if row["value"] in rubric.accepted[field]:
        return None
    near = {name.casefold(): name for name in accepted}.get(row["value"].casefold())
    hint = (
        f"write {near!r}"
        if near
        else f"accepted: {', '.join(accepted[:12])}"
        + (f" and {len(accepted) - 12} more" if len(accepted) > 12 else "")
    )
    return "outside_rubric", f"{field} is {row['value']!r}; {hint}"


def _not_in_range(dimension: Dimension, row: dict[str, Any]) -> tuple[str, str] | None:
    # A spreadsheet of another country writes 3,5.
    text = row["value"].replace(",", ".")
    try:
        number = float(text)
    except ValueError:
        return "not_a_number", f"{dimension.name} is {row['value']!r}, no number"
    whole = dimension.type == "integer"
    if not dimension.min <= number <= dimension.max or (whole and number != int(number)):
        kind = "whole numbers" if whole else "numbers"
        return (
            "outside_rubric",
            f"{dimension.name} is {row['value']}; accepted: {kind} from {dimension.min:g} to {dimension.max:g}",
        )
    row["number"] = number
    return None


def _time(text: str, suite: Suite) -> dt.datetime:
    time = dt.datetime.fromisoformat(text)
    if time.tzinfo is None:
        time = time.replace(tzinfo=suite.zone)
    return time.astimezone(dt.UTC)


def _mark_repeated(rows: Sequence[dict[str, Any]]) -> None:
    """Of an annotator's usable labels of one field of one record the latest stands; the others are rejected."""
    by_item: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        if not row["reasons"]:
            item = tuple(row[name] for name in ("row_id", "field", "annotator"))
            by_item.setdefault(item, []).append(row)
    oldest = dt.datetime.min.replace(tzinfo=dt.UTC)
    for same in by_item.values():
        # Without a time, what stands further down is later.
        *earlier, last = sorted(same, key=lambda row: row["time"] or oldest)
        for row in earlier:
            row["reasons"].append("duplicate_annotator")
            row["detail"].append(
                f"{row['annotator']!r} labelled {row['field']} of {row['row_id']} again, as "
                f"{last['value']!r}, in {last['file']}, line {last['line']}, which stands"
            )


def _mark_mismatched(rows: Sequence[dict[str, Any]], rubrics: Mapping[str, Rubric]) -> None:
    """A nested label under another parent than the one the same annotator gave is rejected."""
    given = {
        (row["row_id"], row["annotator"], row["field"]): row for row in rows if not row["reasons"]
    }
    for (row_id, annotator, field), row in given.items():
        for label in rubrics[row["task"]].labels:
            above = given.get((row_id, annotator, label.name))
            if field != label.nested or above is None:
                continue
            if (home := label.parents[row["value"]]) != above["value"]:
                row["reasons"].append("label_mismatch")
                row["detail"].append(
                    f"{field} {row['value']!r} belongs under {label.name} {home!r}; {annotator!r} gave "
                    f"{above['value']!r}"
                )


def counts(table: pa.Table) -> dict[str, int]:
    """How many labels, usable ones, records and annotators there are, and how many rejected by reason."""
    rows = table.to_pylist()
    usable = [row for row in rows if row["status"] == "valid"]
    reasons = Counter(reason for row in rows for reason in row["reasons"])
    return {
        "labels": len(rows),
        "usable": len(usable),
        "rejected": len(rows) - len(usable),
        "labelled_records": len({row["row_id"] for row in usable}),
        "annotators": len({row["annotator"] for row in usable}),
        **dict(sorted(reasons.items())),
    }
