"""The page of the benchmark: the picture of quality against throughput, the tables, the paired tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, floor, log10
from typing import Any

import pyarrow as pa

from gavel.benchmark.table import QUALITY_OF_DIMENSIONS, QUALITY_OF_LABELS
from gavel.judge.verdicts import FAULTS
from gavel.report.page import environment

Row = Mapping[str, Any]

_SHOWN = {
    QUALITY_OF_LABELS: "macro F1",
    "accuracy": "accuracy",
    "spearman": "Spearman",
    QUALITY_OF_DIMENSIONS: "quadratic kappa",
}
"""The figures of agreement that the page shows, and their names; the table has more."""

_MOST_TESTS = 40
"""Comparisons shown, the least likely by chance first."""

_OPERATIONS: Sequence[tuple[str, str | None, str, str]] = (
    ("records_per_second", None, "Records a second", "rate"),
    ("latency_ms", "p50", "Latency, median", "duration"),
    ("latency_ms", "p95", "Latency, p95", "duration"),
    ("latency_ms", "p99", "Latency, p99", "duration"),
    ("peak_concurrency", None, "Most requests at once", "count"),
    ("invalid_rate", None, "Invalid at first", "percent"),
    ("recovery_rate", None, "Repaired of these", "percent"),
    ("unresolved_rate", None, "Unresolved", "percent"),
    ("retries", None, "Tries repeated", "count"),
    ("prompt_tokens", None, "Prompt tokens", "count"),
    ("completion_tokens", None, "Completion tokens", "count"),
    ("cost_usd_per_1000", None, "Cost a thousand records", "money"),
    ("escalated_rate", None, "Escalated", "percent"),
)


def render_benchmark(suite: str, table: pa.Table, comparisons: pa.Table, missing: str) -> str:
    """The HTML page of the benchmark; `missing` says how to provide labels, where there are none."""
    rows, tests = table.to_pylist(), comparisons.to_pylist()
    tasks = [
        _task(
            task,
            [row for row in rows if row["task"] == task],
            [test for test in tests if test["task"] == task],
        )
        for task in dict.fromkeys(row["task"] for row in rows)
    ]
    return (
        environment()
        .get_template("benchmark.html.j2")
        .render(suite=suite, tasks=tasks, missing=missing, faults=FAULTS)
    )


def _task(task: str, rows: Sequence[Row], tests: Sequence[Row]) -> dict[str, Any]:
    evaluators = list(dict.fromkeys(row["evaluator"] for row in rows))
    found = {(r["evaluator"], r["figure"], r["field"], r["key"]): r for r in rows}

    def cells(figure: str, about: str | None = None, key: str | None = None) -> list[Row | None]:
        return [found.get((name, figure, about, key)) for name in evaluators]

    tested = [test for test in tests if test["p_holm"] is not None]
    return {
        "name": task,
        "evaluators": evaluators,
        "floors": {row["evaluator"] for row in rows if row["floor"]},
        "records": max((r["n"] for r in rows if r["figure"] == "records"), default=0),
        "picture": picture(
            {
                name: (quality, speed)
                for name, speed, quality in zip(
                    evaluators, cells("records_per_second"), cells("quality"), strict=True
                )
                if speed is not None and quality is not None
            },
            {name for name in evaluators if _value(found.get((name, "pareto", None, None))) == 1},
        ),
        "quality": _marked(cells("quality")),
        "agreement": list(_agreement(rows, cells)),
        "operations": [
            {"title": title, "form": form, "cells": cells(figure, None, key)}
            for figure, key, title, form in _OPERATIONS
            if any(_value(cell) is not None for cell in cells(figure, None, key))
        ],
        "faults": [
            {"code": code, "cells": cells("faults", None, code)}
            for code in dict.fromkeys(r["key"] for r in rows if r["figure"] == "faults")
        ],
        "tests": sorted(tested, key=lambda test: test["p_holm"])[:_MOST_TESTS],
        "not_shown": len(tests) - min(len(tested), _MOST_TESTS),
        "signatures": {row["evaluator"]: row["signature"] for row in rows},
    }


def _agreement(rows: Sequence[Row], cells: Any) -> Iterator[dict[str, Any]]:
    """One row a field and shown figure, with a cell an evaluator; the best is marked."""
    fields = dict.fromkeys((row["field"], row["figure"]) for row in rows if row["field"])
    for name, figure in fields:
        if figure in _SHOWN:
            yield {
                "field": name,
                "figure": _SHOWN[figure],
                "cells": _marked(cells(figure, name)),
            }


def _marked(cells: Sequence[Row | None]) -> list[dict[str, Any] | None]:
    """The cells, each with whether no other is better; one of less than half the records is not compared."""
    most = max((cell["n"] for cell in cells if cell is not None and cell["n"]), default=0)
    known = [
        value
        for cell in cells
        if cell is not None and (value := _value(cell)) is not None and 2 * cell["n"] >= most
    ]
    best = max(known, default=None)
    return [
        None if cell is None else {**cell, "best": best is not None and cell["value"] == best}
        for cell in cells
    ]


def picture(points: Mapping[str, tuple[Row, Row]], front: set[str]) -> dict[str, Any] | None:
    """Quality upwards, records a second to the right on a logarithmic scale, in per cent of a box.

    The *front* is joined by steps: right of and above them nobody is. Evaluators that lack one of the two figures
    are listed with the reason. None where nobody has both.
    """
    known = {
        name: (speed["value"], quality["value"])
        for name, (quality, speed) in points.items()
        if speed["value"] is not None and quality["value"] is not None
    }
    absent = {
        name: quality["note"] if quality["value"] is None else speed["note"]
        for name, (quality, speed) in points.items()
        if name not in known
    }
    if not known:
        return None
    speeds, qualities = zip(*known.values(), strict=True)
    left, right = floor(log10(min(speeds))), ceil(log10(max(speeds)))
    right = right if right > left else left + 1
    # Some room below, for the names of the lowest.
    low, high = floor(min(qualities) * 10 - 0.5) / 10, ceil(max(qualities) * 10) / 10

    def place(speed: float, quality: float) -> tuple[float, float]:
        x = 100 * (log10(speed) - left) / (right - left)
        return round(x, 2), round(100 - 100 * (quality - low) / (high - low), 2)

    placed = [
        {"name": name, "x": x, "y": y, "speed": speed, "quality": quality, "front": name in front}
        for name, (speed, quality) in known.items()
        for x, y in [place(speed, quality)]
    ]
    return {
        "points": sorted(placed, key=lambda point: point["x"]),
        "steps": _steps([point for point in placed if point["front"]]),
        "absent": absent,
        "decades": [
            {"x": 100 * n / (right - left), "rate": 10.0 ** (left + n)}
            for n in range(right - left + 1)
        ],
        "low": low,
        "high": high,
    }


def _steps(front: Sequence[Mapping[str, Any]]) -> list[tuple[float, float]]:
    """The corner points of the line through the front, from the left edge down to the right one."""
    ordered = sorted(front, key=lambda point: point["x"])
    if not ordered:
        return []
    corners = [(0.0, ordered[0]["y"])]
    for point, after in zip(ordered, [*ordered[1:], None], strict=True):
        corners.append((point["x"], point["y"]))
        corners.append((point["x"], 100.0 if after is None else after["y"]))
    return corners


def _value(cell: Row | None) -> float | None:
    return None if cell is None else cell["value"]
