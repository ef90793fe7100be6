"""The table and the paired tests on evaluators whose agreement with people was worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl
import pytest
from scipy import stats

from gavel.agreement.bootstrap import Resampling
from gavel.benchmark.table import (
    COMPARISONS,
    TABLE,
    TABLE_VALID,
    comparison_rows,
    contenders,
    pareto,
    table_rows,
)
from gavel.suite import Suite
from tests.gavel.benchmark.conftest import Says, answers, labelled, people, verdicts

RESAMPLING = Resampling(resamples=400)
N = 60
MORE = [f"e{n}" for n in range(9)]


def suite(task: Mapping[str, Any] | None = None) -> Suite:
    model = {"backend": "openai_compatible", "base_url": "http://x", "model": "m"}
    return Suite.model_validate(
        {
            "first_day": "2026-11-02",
            "sources": [{"name": "s", "format": "jsonl", "path": "{day}.jsonl"}],
            "evaluator": "small",
            "evaluators": {
                name: model | {"prices": {"prompt": 1}}
                for name in ("small", "medium", "large", *MORE)
            },
            "tasks": {"tiny": task or {}},
        }
    )


PERFECT: Says = lambda n: {}  # noqa: E731
CONSTANT: Says = lambda n: {"helpfulness": 3.0, "intent": "buy"}  # noqa: E731


def reversed_scale(n: int) -> dict[str, Any]:
    return {"helpfulness": 6.0 - people(n)["helpfulness"]}


def rows_of(
    evaluators: Mapping[str, Says], task: Mapping[str, Any] | None = None, **latency: float
) -> tuple[dict[tuple[str, str, str | None], dict[str, Any]], list[dict[str, Any]]]:
    of = labelled(N)
    judged = {
        name: verdicts(name, N, says, latency.get(name, 100.0)) for name, says in evaluators.items()
    }
    asked = {name: answers(table) for name, table in judged.items()}
    found = contenders(suite(task), of, judged, asked, RESAMPLING)
    rows = list(table_rows(of, found))
    frame = pl.DataFrame(
        [{k: row.get(k) for k in TABLE.names} for row in rows], schema=pl.Schema(TABLE)
    )
    TABLE_VALID.validate(frame, lazy=True)
    tests = comparison_rows(of, found, RESAMPLING)
    assert all(set(test) == set(COMPARISONS.names) for test in tests)
    return {(r["evaluator"], r["figure"], r["field"]): r for r in rows if r["key"] is None}, tests


def test_agreement_by_hand() -> None:
    found, _ = rows_of({"small": PERFECT, "large": reversed_scale, "constant": CONSTANT})
    assert found["small", "spearman", "helpfulness"]["value"] == pytest.approx(1)
    assert found["large", "spearman", "helpfulness"]["value"] == pytest.approx(-1)
    # Differences of 4, 2, 0, 2 and 4.
    assert found["large", "mae", "helpfulness"]["value"] == pytest.approx(2.4)
    constant = found["constant", "pearson", "helpfulness"]
    assert constant["value"] is None
    assert constant["note"].startswith("undefined:")
    assert found["constant", "quadratic_kappa", "helpfulness"]["value"] == pytest.approx(0)
    # A quarter is "return", never said: F1 of "buy" is 2 * 3/4 / (3/4 + 1), of "return" 0.
    assert found["constant", "macro_f1", "intent"]["value"] == pytest.approx(0.75 / 1.75)
    assert found["constant", "accuracy", "intent"]["value"] == pytest.approx(0.75)
    assert ("small", "accuracy", "acceptability") not in found, "people did not label it"


def test_quality_is_the_mean_over_the_same_fields_for_all() -> None:
    found, _ = rows_of({"small": PERFECT, "constant": CONSTANT})
    assert found["small", "quality", None]["value"] == pytest.approx(1)
    assert found["constant", "quality", None]["value"] == pytest.approx((0 + 0.75 / 1.75) / 2)
    assert found["small", "quality", None]["n"] == 2
    assert "without depth" in found["small", "quality", None]["note"]


def test_an_evaluator_without_a_valid_verdict_is_wrong_about_labels() -> None:
    def half(n: int) -> dict[str, Any]:
        return {"status": "invalid", "faults": ["not_json"]} if n % 2 else {}

    found, _ = rows_of({"small": half, "large": PERFECT})
    assert found["small", "accuracy", "intent"]["value"] == pytest.approx(0.5)
    assert found["small", "spearman", "helpfulness"]["n"] == N // 2
    assert found["small", "spearman", "helpfulness"]["value"] == pytest.approx(1)


def test_an_evaluator_that_hardly_answers_has_no_quality_and_takes_none_from_the_others() -> None:
    def seldom(n: int) -> dict[str, Any]:
        return {} if n < 2 else {"status": "invalid", "faults": ["not_json"]}

    found, _ = rows_of({"small": seldom, "large": PERFECT, "constant": CONSTANT})
    without, _ = rows_of({"large": PERFECT, "constant": CONSTANT})
    row = found["small", "quality", None]
    assert row["value"] is None
    assert row["note"].startswith("undefined: fewer than 50% of the labelled records")
    assert found["small", "pareto", None]["value"] is None
    for name in ("large", "constant"):
        assert found[name, "quality", None]["value"] == without[name, "quality", None]["value"]


@pytest.mark.parametrize(
    ("points", "front"),
    [
        ({"a": (1, 1)}, {"a"}),
        ({"a": (1, 1), "b": (2, 2)}, {"b"}),
        ({"a": (1, 2), "b": (2, 1)}, {"a", "b"}),
        ({"a": (1, 2), "b": (2, 2)}, {"b"}),
        ({"a": (1, 2), "b": (1, 2)}, {"a", "b"}),
        ({"a": (1, 3), "b": (2, 2), "c": (3, 1), "d": (1, 1), "e": (2, 1.5)}, {"a", "b", "c"}),
        ({"a": (1, None), "b": (None, 2), "c": (0, 0)}, {"c"}),
        ({}, set()),
    ],
)
def test_the_front_is_who_nobody_beats(
    points: dict[str, tuple[float | None, float | None]], front: set[str]
) -> None:
    assert {name for name, on in pareto(points).items() if on} == front


def test_the_front_of_a_table() -> None:
    slow_and_right, fast_and_wrong, slow_and_wrong = 1000.0, 1.0, 2000.0
    found, _ = rows_of(
        {"small": CONSTANT, "medium": CONSTANT, "large": PERFECT},
        small=fast_and_wrong,
        medium=slow_and_wrong,
        large=slow_and_right,
    )
    assert [found[n, "pareto", None]["value"] for n in ("small", "medium", "large")] == [1, 0, 1]


def test_paired_tests_by_hand() -> None:
    def wrong_on_eight(n: int) -> dict[str, Any]:
        return {"intent": "buy" if people(n)["intent"] == "return" else "return"} if n < 8 else {}

    _, tests = rows_of({"small": PERFECT, "large": wrong_on_eight, "constant": CONSTANT})
    found = {(t["figure"], t["field"], t["first"], t["second"]): t for t in tests}
    exact = found["accuracy", "intent", "small", "large"]
    assert exact["test"] == "McNemar"
    assert exact["p"] == pytest.approx(2 / 2**8)
    assert exact["difference"] == pytest.approx(8 / N)
    assert exact["low"] < 8 / N < exact["high"]
    assert exact["note"] == "only first right: 8, only second: 0"
    # Constant is wrong on the 15 "return"s, of which two are among the eight that large gets wrong.
    crossed = found["accuracy", "intent", "large", "constant"]
    assert crossed["note"] == "only first right: 13, only second: 6"
    assert crossed["p"] == pytest.approx(stats.binomtest(13, 19).pvalue)
    same = found["quadratic_kappa", "helpfulness", "small", "large"]
    assert (same["difference"], same["p"]) == (0, 1)
    undefined = found["spearman", "helpfulness", "small", "constant"]
    assert (undefined["difference"], undefined["p"], undefined["p_holm"]) == (None, None, None)
    assert undefined["note"]


def test_with_many_evaluators_a_clear_difference_is_still_seen() -> None:
    _, tests = rows_of({"small": PERFECT} | dict.fromkeys(MORE, CONSTANT))
    assert len([t for t in tests if t["figure"] == "quadratic_kappa"]) == 45
    clear = [t for t in tests if t["figure"] == "quadratic_kappa" and t["first"] == "small"]
    assert len(clear) == 9
    assert all(t["p_holm"] < 0.05 for t in clear)


def test_p_values_are_corrected_over_the_pairs_of_a_figure_and_field() -> None:
    def few(n: int) -> dict[str, Any]:
        return {"intent": "buy" if people(n)["intent"] == "return" else "return"} if n < 6 else {}

    _, tests = rows_of({"small": PERFECT, "medium": few, "large": CONSTANT})
    family = [t for t in tests if t["figure"] == "accuracy"]
    ps = sorted(t["p"] for t in family)
    assert len(ps) == 3
    # Holm by hand: the least times 3, the next times 2, never falling.
    expected = [min(1, 3 * ps[0])]
    expected.append(max(expected[0], min(1, 2 * ps[1])))
    expected.append(max(expected[1], min(1, ps[2])))
    assert sorted(t["p_holm"] for t in family) == pytest.approx(expected)


def test_two_floors_are_not_tested_against_each_other() -> None:
    _, tests = rows_of({"small": PERFECT, "majority": CONSTANT, "constant": CONSTANT})
    pairs = {(t["first"], t["second"]) for t in tests}
    assert pairs == {("small", "majority"), ("small", "constant")}


def test_each_row_has_a_signature_that_says_what_determines_it() -> None:
    found, _ = rows_of({"small": PERFECT})
    (signature,) = {row["signature"] for row in found.values()}
    for part in (
        "evaluator:small",
        "task:tiny",
        "model:small-model",
        "rev:rev",
        "n:60",
        "seed:7",
        "prices:1/0/0",
    ):
        assert part in signature.split("|")


def test_the_panel_and_the_tiers_stand_in_the_table_beside_their_members() -> None:
    def low(n: int) -> dict[str, Any]:
        return {"helpfulness": 1.0, "confidence": 0.1 if n < 6 else 0.9}

    def high(n: int) -> dict[str, Any]:
        return {"helpfulness": 5.0}

    task = {
        "panel": {"members": ["medium"], "aggregate": "mean"},
        "escalation": {"evaluator": "large", "high_risk": [{"language": "de"}]},
    }
    found, tests = rows_of({"small": low, "medium": high, "large": PERFECT}, task)
    # The mean of 1 and 5 is 3 everywhere; a third of the records are German and go to the larger one.
    panel = found["small+medium", "mae", "helpfulness"]
    assert panel["value"] == pytest.approx(1.2)
    tiers = found["small+medium>large", "mae", "helpfulness"]
    german = range(0, N, 3)
    left = [abs(people(n)["helpfulness"] - 3) for n in range(N) if n not in german]
    assert tiers["value"] == pytest.approx(sum(left) / N)
    assert found["small+medium>large", "escalated_rate", None]["value"] == pytest.approx(1 / 3)
    assert found["small+medium>large", "cost_usd_per_1000", None]["value"] == pytest.approx(
        1 + 1 + 1 / 3
    )
    assert found["small+medium", "records_per_second", None]["value"] is None
    assert ("small", "small+medium>large") in {(t["first"], t["second"]) for t in tests}
