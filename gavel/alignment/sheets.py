"""What annotators get: a sheet each, and tasks for Label Studio. Blind: nothing an evaluator said is in them."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import orjson
import pyarrow as pa

from gavel.alignment.files import read_file
from gavel.alignment.population import rows_by_id, scored_rubrics
from gavel.errors import LabelError
from gavel.judge.rubric import Rubric
from gavel.store.files import Store, write_text
from gavel.suite import Suite

SHOWN = ("language", "prompt", "response", "source_text", "reference")
"""Columns of a record that annotators see, where the task has them."""


def write_sheets(suite: Suite, store: Store, sample: pa.Table, folder: Path) -> list[Path]:
    """Write the present round's sheets, tasks and labelling setup of every task; return the files.

    Raises:
        LabelError: a sheet is there that holds labels, or cannot be read; nothing is written.
    """
    rounds = [row for row in sample.to_pylist() if row["round"] == suite.alignment.sample.round]
    written: dict[Path, str] = {}
    for task, rubric in scored_rubrics(suite, store).items():
        drawn = [row for row in rounds if row["task"] == task]
        if not drawn:
            continue
        records = rows_by_id(store, task, SHOWN, [row["row_id"] for row in drawn])
        drawn = [row for row in drawn if row["row_id"] in records]
        shown = [name for name in SHOWN if any(records[r["row_id"]][name] for r in drawn)]
        texts = {
            "label_studio.json": _label_studio_tasks(task, drawn, records, shown),
            "label_studio.xml": labelling_setup(rubric, shown),
            "guide.md": guide(rubric),
        }
        for annotator in sorted({name for row in drawn for name in row["annotators"]}):
            own = [row for row in drawn if annotator in row["annotators"]]
            texts[f"{annotator}.csv"] = _sheet(rubric, annotator, own, records, shown)
        written |= {folder / task / name: text for name, text in texts.items()}
    for path in written:
        # The sheets of an earlier round that nobody has filled in make room for those of this one.
        if path.suffix == ".csv" and path.exists() and any(True for _ in read_file(path, {})):
            raise LabelError(
                f"{path}: is there already and is no empty sheet: it may hold labels; name another folder, or "
                "take it in and move it away first"
            )
    for path, text in written.items():
        write_text(path, text)
    return list(written)


def guide(rubric: Rubric) -> str:
    """What an annotator has to know: each field, its meaning and its values."""
    lines = [f"# Labelling {rubric.task}, version {rubric.version}", "", rubric.description, ""]
    for dimension in rubric.dimensions:
        kind = "whole number" if dimension.type == "integer" else "number"
        empty = "; leave it empty where it cannot apply" if dimension.optional else ""
        lines += [
            f"## {dimension.name}",
            f"A {kind} from {dimension.min:g} to {dimension.max:g}{empty}. {dimension.description}",
            "",
        ]
    for name, values in rubric.label_values.items():
        described = {
            value.name: value.description
            for label in rubric.labels
            for value in [*label.values, *(child for v in label.values for child in v.values)]
        }
        parents = {
            child: parent
            for label in rubric.labels
            if label.nested == name
            for child, parent in label.parents.items()
        }
        lines += [f"## {name}", f"One of these, as written. {rubric.meanings[name]}", ""]
        lines += [
            f"- `{value}`"
            + (f" (under `{parents[value]}`)" if value in parents else "")
            + (f": {described[value]}" if described.get(value) else "")
            for value in values
        ]
        lines.append("")
    return "\n".join(lines)


def labelling_setup(rubric: Rubric, shown: Sequence[str]) -> str:
    """The labelling interface for Label Studio; its controls are named like the fields."""
    lines = ["<View>"]
    for name in shown:
        lines += [
            f"  <Header value={quoteattr(name)}/>",
            f'  <Text name="{name}" value="${name}"/>',
        ]
    about = "response" if "response" in shown else shown[0]
    for dimension in rubric.dimensions:
        lines.append(f"  <Header value={quoteattr(f'{dimension.name}: {dimension.description}')}/>")
        step = ' step="1"' if dimension.type == "integer" else ""
        lines.append(
            f'  <Number name="{dimension.name}" toName="{about}" min="{dimension.min:g}" '
            f'max="{dimension.max:g}"{step}/>'
        )
    for name, values in rubric.label_values.items():
        lines.append(f"  <Header value={quoteattr(name)}/>")
        lines.append(f'  <Choices name="{name}" toName="{about}" choice="single" layout="select">')
        lines += [f"    <Choice value={quoteattr(value)}/>" for value in values]
        lines.append("  </Choices>")
    return "\n".join([*lines, "</View>", ""])


def _sheet(
    rubric: Rubric,
    annotator: str,
    drawn: Sequence[Mapping[str, Any]],
    records: Mapping[str, Mapping[str, Any]],
    shown: Sequence[str],
) -> str:
    """A wide CSV, the fields empty; with a byte-order mark, or spreadsheets take UTF-8 for something else."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(["row_id", "annotator", "task", *shown, *rubric.columns, "comment"])
    for row in drawn:
        record = records[row["row_id"]]
        cells = [_harmless(record[name]) for name in shown]
        writer.writerow(
            [row["row_id"], annotator, rubric.task, *cells, *[""] * len(rubric.columns), ""]
        )
    return "\ufeff" + text.getvalue()


def _harmless(text: str | None) -> str:
    """A customer's text that a spreadsheet would compute, as text."""
    text = text or ""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _label_studio_tasks(
    task: str,
    drawn: Sequence[Mapping[str, Any]],
    records: Mapping[str, Mapping[str, Any]],
    shown: Sequence[str],
) -> str:
    tasks = [
        {
            "data": {
                "row_id": row["row_id"],
                "task": task,
                **{name: records[row["row_id"]][name] or "" for name in shown},
            }
        }
        for row in drawn
    ]
    return orjson.dumps(tasks, option=orjson.OPT_INDENT_2).decode()
