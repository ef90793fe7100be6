"""The leaderboard: figures worked out by hand, intervals, published figures, and the order of the baselines."""

from __future__ import annotations

from typing import Any

import pytest

from gavel.agreement.bootstrap import Resampling
from gavel.fashion.leaderboard import (
    baselines_out_of_order,
    leaderboard,
    outdated_systems,
    published,
    ranking,
)

RESAMPLING = Resampling(200, 0.95, 7)


def row(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "system": "yake",
        "language": "de",
        "mode": "query",
        "id": f"e{number}",
        "goal_kind": "item",
        "failures": [],
        "requests": 2,
        "prompt_tokens": 100,
        "completion_tokens": 10,
        "seconds": 1.5,
        "cost_usd": 0.25,
        "bertscore": 0.5,
        "similarity": 0.9,
        "attributes": [],
        "theme_first": None,
        "theme_third": None,
        "undefined": None,
        "signature": "s",
        **changes,
    }


def found(*rows: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(r["figure"], r["key"]): r for r in leaderboard(rows, RESAMPLING).to_pylist()}


def attribute(name: str, exact: bool, equivalent: bool) -> dict[str, Any]:
    return {"attribute": name, "value": "v", "exact": exact, "equivalent": equivalent}


def test_figures_by_hand() -> None:
    two = [attribute("colour", True, True), attribute("size", False, True)]
    one = [attribute("colour", False, False)]
    table = found(
        row(1, bertscore=0.8, attributes=two),
        row(2, bertscore=0.6, attributes=one, failures=["prefix", "prefix", "no_query"]),
        row(3, bertscore=None, attributes=[], failures=["no_query"], undefined="no query"),
        row(
            4, goal_kind="theme", bertscore=None, similarity=None, theme_first=0.5, theme_third=1.0
        ),
    )
    assert table["bertscore", ""]["value"] == pytest.approx(70)
    assert table["bertscore", ""]["n"] == 2
    assert table["similarity", ""]["value"] == pytest.approx(90)
    # One of three attributes stands in a query exactly, two in some spelling.
    assert table["attribute_exact", ""]["value"] == pytest.approx(100 / 3)
    assert table["attribute_equivalent", ""]["value"] == pytest.approx(200 / 3)
    assert table["attribute_exact", "colour"]["value"] == pytest.approx(50)
    assert table["attribute_equivalent", "size"]["value"] == pytest.approx(100)
    assert table["attribute_exact", "brand"]["value"] is None
    assert table["attribute_exact", "brand"]["reason"] == "no conversation about an item"
    assert table["theme_first", ""]["value"] == pytest.approx(50)
    assert table["theme_third", ""]["value"] == pytest.approx(100)
    assert table["no_query", ""]["value"] == pytest.approx(25)
    assert table["failed", "no_query"]["value"] == pytest.approx(50), "the second mended it"
    # A conversation counts once, however often it failed so.
    assert table["failed", "prefix"]["value"] == pytest.approx(25)
    assert ("failed", "role_switch") not in table
    assert table["cost_usd", ""]["value"] == pytest.approx(1)
    assert table["tokens", ""]["value"] == 440
    assert table["seconds", ""]["value"] == 6
    assert table["bertscore", ""]["signature"] == "s|resamples:200|confidence:0.95|seed:7"


def test_intervals_hold_the_value_and_shrink_with_the_data() -> None:
    values = [0.3, 0.9, 0.5, 0.7, 0.6, 0.8, 0.4, 0.6]
    few = found(*(row(n, bertscore=v) for n, v in enumerate(values)))["bertscore", ""]
    many = found(*(row(n, bertscore=v) for n, v in enumerate(values * 20)))["bertscore", ""]
    assert few["low"] < few["value"] < few["high"]
    assert many["high"] - many["low"] < (few["high"] - few["low"]) / 3


def test_undefined_figures_are_null_with_the_reason() -> None:
    why = "no BERTScore: not installed"
    table = found(row(1, bertscore=None, undefined=why, prompt_tokens=None, cost_usd=None))
    assert (table["bertscore", ""]["value"], table["bertscore", ""]["reason"]) == (None, why)
    assert (table["tokens", ""]["value"], table["tokens", ""]["reason"]) == (
        None,
        "the server does not count tokens",
    )
    assert table["theme_first", ""]["value"] is None
    assert table["similarity", ""]["reason"] == "one conversation is no sample to resample"
    assert leaderboard([], RESAMPLING).num_rows == 0


def test_outdated_systems_are_marked_and_told() -> None:
    table = leaderboard([row(1), row(2, system="lorem")], RESAMPLING, {("de", "yake")}).to_pylist()
    assert {(r["system"], r["outdated"]) for r in table} == {("yake", True), ("lorem", False)}
    assert [sentence[:20] for sentence in outdated_systems(table)] == ["de: yake is outdated"]


def test_published_figures_stand_beside_systems_of_their_name() -> None:
    assert found(row(1), row(2))["bertscore", ""]["published"] == 84.0
    assert found(row(1), row(2))["similarity", ""]["published"] is None
    assert found(row(1, system="mine"), row(2, system="mine"))["bertscore", ""]["published"] is None
    for name in ("gpt-3.5-III", "GPT-3.5-III", "gpt-3.5-iii"):
        named = [row(n, system=name, mode="assistant", language="el") for n in (1, 2)]
        assert found(*named)["bertscore", ""]["published"] == 83.5
    assert len(published()) == 11 * 4
    # The table of the paper, spot by spot.
    assert published()["query", "lorem", "fr"] == 62.0
    assert published()["query", "popularity", "en"] == 72.5
    assert published()["query", "gpt-4", "en"] == 88.9
    assert published()["assistant", "gpt-4", "de"] == 86.9
    assert published()["assistant", "gpt-3.5-II", "el"] == 82.7


def test_the_order_of_the_baselines_is_checked_by_the_ranking_figure() -> None:
    def table(yake: float, popularity: float, lorem: float, **more: Any) -> list[dict[str, Any]]:
        rows = [
            row(n, system=system, similarity=value, **more)
            for system, value in (("yake", yake), ("popularity", popularity), ("lorem", lorem))
            for n in (1, 2)
        ]
        return leaderboard(rows, RESAMPLING).to_pylist()

    fine = table(0.9, 0.8, 0.7, bertscore=None)
    assert ranking(fine) == "similarity"
    assert baselines_out_of_order(fine) == []
    assert baselines_out_of_order(table(0.9, 0.7, 0.8, bertscore=None)) == [
        "de: popularity (70.00) is not better than lorem (80.00) by similarity"
    ]
    ranked = table(0.9, 0.8, 0.7)
    assert ranking(ranked) == "bertscore"
    assert len(baselines_out_of_order(ranked)) == 2
