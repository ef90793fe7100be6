"""The page of the pairwise comparison: systems by strength, one panel an evaluator, and every pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from gavel.report.dialogue import per_cent
from gavel.report.page import environment

Row = Mapping[str, Any]


def render_ranking(suite: str, table: pa.Table) -> str:
    """The HTML page of the ranking."""
    rows = table.to_pylist()
    strengths = [row for row in rows if row["figure"] == "strength"]
    ends = [row[end] for row in strengths for end in ("value", "low", "high")]
    known = [end for end in ends if end is not None]
    low, high = (min(known), max(known)) if known else (0.0, 0.0)
    right = high if high > low else low + 1.0
    evaluators = [
        _evaluator(name, [row for row in rows if row["evaluator"] == name], low, right)
        for name in dict.fromkeys(row["evaluator"] for row in rows)
    ]
    return (
        environment()
        .get_template("ranking.html.j2")
        .render(suite=suite, evaluators=evaluators, low=low, high=high)
    )


def _evaluator(name: str, rows: Sequence[Row], low: float, high: float) -> dict[str, Any]:
    found = {(row["figure"], row["first"], row["second"]): row for row in rows}
    place = partial(per_cent, low=low, high=high)
    systems = [
        {
            **row,
            "x": place(row["value"]),
            "from": place(row["low"]),
            "to": place(row["high"]),
            "win_rate": found["win_rate", row["first"], None],
        }
        for row in rows
        if row["figure"] == "strength"
    ]
    names = ("win_rate", "wins", "ties", "losses", "inconsistent", "inconsistent_rate")
    pairs = [
        {"one": one, "other": other, **{name: found[name, one, other] for name in names}}
        for figure, one, other in found
        if figure == "win_rate" and other is not None
    ]
    overall = (
        "inconsistent",
        "inconsistent_rate",
        "unresolved",
        "position_bias",
        "accuracy",
        "kappa",
    )
    return {
        "name": name,
        # By strength; where that is undefined, by how often they win.
        "systems": sorted(
            systems, key=lambda s: (-(s["value"] or 0.0), -(s["win_rate"]["value"] or 0.0))
        ),
        "pairs": pairs,
        "overall": {figure: found.get((figure, None, None)) for figure in overall},
        "signature": rows[0]["signature"],
    }
