"""What people said of the labelled records, from the table of labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from gavel.agreement.annotators import consensus
from gavel.benchmark.records import People
from gavel.judge.rubric import Rubric
from gavel.store.files import Store
from gavel.suite import Suite


def labels_file(store: Store) -> Path | None:
    """The table of labels; None where there is none yet."""
    path = store.table("alignment/labels")
    return path if path.exists() else None


def missing_labels(suite: Suite) -> str:
    """How to provide labels, for someone who has none."""
    return "no record is labelled yet, so there is nothing to compare evaluators by"


def people_of(suite: Suite, store: Store, rubric: Rubric) -> People:
    """What people agreed on for each field of the task, by row_id."""
    path = labels_file(store)
    if path is None:
        return {}
    numbers = {dimension.name for dimension in rubric.dimensions}
    given: dict[str, dict[str, list[Any]]] = {}
    labels = pl.read_parquet(path).filter(
        pl.col("task") == rubric.task, pl.col("status") == "valid"
    )
    for row in labels.iter_rows(named=True):
        value = row["number"] if row["field"] in numbers else row["value"]
        given.setdefault(row["field"], {}).setdefault(row["row_id"], []).append(value)
    agreed = {
        field: {row_id: consensus(values) for row_id, values in items.items()}
        for field, items in given.items()
    }
    return {
        field: {row_id: value for row_id, value in items.items() if value is not None}
        for field, items in agreed.items()
    }
