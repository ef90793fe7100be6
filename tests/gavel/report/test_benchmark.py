"""The picture of quality against throughput: where each evaluator stands, and the line through the front."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from gavel.benchmark.table import COMPARISONS, TABLE
from gavel.report.benchmark import _marked, picture, render_benchmark


def cell(value: float | None, note: str | None = None) -> dict[str, Any]:
    return {"value": value, "note": note}


def points(**known: tuple[float | None, float | None]) -> dict[str, Any]:
    return {
        name: (cell(quality, "undefined: no labels"), cell(speed, "undefined: no time"))
        for name, (speed, quality) in known.items()
    }


def test_places_are_per_cent_of_a_logarithmic_and_a_straight_axis() -> None:
    found = picture(
        points(slow=(1.0, 1.0), fast=(100.0, 0.55), beaten=(10.0, 0.55)), {"slow", "fast"}
    )
    assert found is not None
    assert (found["low"], found["high"]) == (0.5, 1.0)
    assert [d["rate"] for d in found["decades"]] == pytest.approx([1, 10, 100])
    placed = {p["name"]: (p["x"], p["y"], p["front"]) for p in found["points"]}
    assert placed == {
        "slow": (0, 0, True),
        "beaten": (50, pytest.approx(90), False),
        "fast": (100, pytest.approx(90), True),
    }
    # From the left edge along the best quality, down at each point of the front.
    assert found["steps"] == [(0, 0), (0, 0), (0, 90), (100, 90), (100, 100)]


def test_one_point_alone_has_a_picture_and_none_has_none() -> None:
    found = picture(points(only=(5.0, 0.0)), {"only"})
    assert found is not None
    assert found["high"] > found["low"]
    assert picture(points(unlabelled=(5.0, None)), set()) is None


def test_what_has_no_place_is_listed_with_the_reason() -> None:
    found = picture(points(here=(5.0, 0.5), there=(5.0, None), timeless=(None, 0.3)), {"here"})
    assert found is not None
    assert found["absent"] == {"there": "undefined: no labels", "timeless": "undefined: no time"}


def test_the_best_of_a_row_rests_on_enough_records() -> None:
    cells = [{"value": value, "n": n} for value, n in ((1.0, 2), (0.6, 150), (0.5, 75), (None, 0))]
    marked = _marked([*cells, None])
    assert [cell and cell["best"] for cell in marked] == [False, True, False, False, None]
    assert _marked([{"value": None, "n": 0}])[0] == {"value": None, "n": 0, "best": False}


def test_names_are_escaped_and_an_empty_table_says_what_is_missing() -> None:
    row = dict.fromkeys(TABLE.names) | {
        "task": "chat",
        "evaluator": "<script>",
        "figure": "quality",
        "value": 0.5,
        "n": 1,
        "floor": False,
        "signature": "<b>",
    }
    page = render_benchmark(
        "demo", pa.Table.from_pylist([row], schema=TABLE), COMPARISONS.empty_table(), ""
    )
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    empty = render_benchmark(
        "demo", TABLE.empty_table(), COMPARISONS.empty_table(), "no labels yet"
    )
    assert "no labels yet" in empty
