"""Panels: several verdicts on one record made one, with values worked out by hand."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from gavel.judge.panel import Aggregate, aggregated
from tests.gavel.judge.conftest import TINY

SCHEMA = {
    "row_id": pl.String,
    "place": pl.Int64,
    "helpfulness": pl.Float64,
    "depth": pl.Float64,
    "intent": pl.String,
    "sub_intent": pl.String,
    "acceptability": pl.String,
    "confidence": pl.Float64,
}


def vote(place: int, row_id: str = "a", **changes: Any) -> dict[str, Any]:
    return {
        "row_id": row_id,
        "place": place,
        "helpfulness": 4.0,
        "depth": 0.5,
        "intent": "buy",
        "sub_intent": "paint",
        "acceptability": "acceptable",
        "confidence": 0.5,
    } | changes


def made_one(votes: list[dict[str, Any]], how: Aggregate = "median") -> list[dict[str, Any]]:
    return aggregated(TINY, pl.DataFrame(votes, schema=SCHEMA), how).to_dicts()


@pytest.mark.parametrize(
    ("how", "helpfulness"), [("mean", 8 / 3), ("median", 2.0), ("majority", 2.0)]
)
def test_numbers_become_one_as_the_panel_is_told(how: Aggregate, helpfulness: float) -> None:
    votes = [vote(n, helpfulness=float(v)) for n, v in enumerate((2, 2, 4))]
    (found,) = made_one(votes, how)
    assert found["helpfulness"] == pytest.approx(helpfulness)
    assert found["votes"] == 3


def test_equal_verdicts_do_not_disagree_and_opposite_ones_do_wholly() -> None:
    (same,) = made_one([vote(0), vote(1)])
    assert same["disagreement"] == 0
    low = {"helpfulness": 1.0, "depth": 0.0}
    high = {"helpfulness": 5.0, "depth": 1.0}
    other = {"intent": "return", "sub_intent": "broken", "acceptability": "not_acceptable"}
    (apart,) = made_one([vote(0, **low), vote(1, **high, **other)])
    # Spread over range is 1 for both numbers; of two different labels each has half: (1 + 1 + 3 * 1/2) / 5.
    assert apart["disagreement"] == pytest.approx(0.7)


def test_one_vote_is_no_panel() -> None:
    (found,) = made_one([vote(0)])
    assert (found["votes"], found["disagreement"], found["helpfulness"]) == (1, None, 4.0)


def test_a_nested_label_stands_under_the_winning_parent() -> None:
    votes = [
        vote(0, intent="buy", sub_intent="paint"),
        vote(1, intent="return", sub_intent="broken"),
        vote(2, intent="buy", sub_intent="nails"),
        vote(3, intent="return", sub_intent="broken"),
        vote(4, intent="buy", sub_intent="nails"),
    ]
    (found,) = made_one(votes)
    assert (found["intent"], found["sub_intent"]) == ("buy", "nails")


def test_a_tie_goes_to_whoever_is_named_earlier() -> None:
    votes = [vote(1, intent="return", sub_intent="broken"), vote(0)]
    (found,) = made_one(votes)
    assert (found["intent"], found["sub_intent"]) == ("buy", "paint")


def test_null_does_not_vote_and_null_everywhere_stays_null() -> None:
    (some,) = made_one([vote(0, depth=None), vote(1, depth=0.2)], "mean")
    assert some["depth"] == pytest.approx(0.2)
    (none,) = made_one([vote(0, depth=None), vote(1, depth=None, confidence=None)], "majority")
    assert (none["depth"], none["confidence"]) == (None, 0.5)
    assert none["disagreement"] == 0


def test_records_do_not_mix() -> None:
    found = made_one([vote(0, "b", helpfulness=1.0), vote(0, "a"), vote(1, "b", helpfulness=3.0)])
    assert [(row["row_id"], row["helpfulness"]) for row in found] == [("a", 4.0), ("b", 2.0)]
