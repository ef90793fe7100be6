"""Annotators against each other: published values, the real translations and preferences, and the ceiling."""

from __future__ import annotations

import json
from typing import Literal

import krippendorff
import numpy as np
import pytest
from sklearn import metrics

from gavel.agreement.annotators import (
    MOST_ORDINAL_VALUES,
    consensus,
    human_ceiling,
    krippendorff_alpha,
    majority,
    pairs,
)
from gavel.agreement.bootstrap import Resampling

from .conftest import MLQE, PANDALM, alone, direct_assessments, needs

FEW = Resampling(200)

# Krippendorff 2011, Computing Krippendorff's Alpha-Reliability: four observers, twelve units, missing values.
OBSERVED = {
    "A": "1 2 3 3 2 1 4 1 2 . . .",
    "B": "1 2 3 3 2 2 4 1 2 5 . 3",
    "C": ". 3 3 3 2 3 4 2 2 5 1 .",
    "D": "1 2 3 3 2 4 4 1 2 5 1 .",
}
RATINGS = {
    str(unit): {
        observer: float(cells.split()[unit])
        for observer, cells in OBSERVED.items()
        if cells.split()[unit] != "."
    }
    for unit in range(12)
}


@pytest.mark.parametrize(
    ("level", "published"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)]
)
def test_krippendorffs_own_example(
    level: Literal["nominal", "ordinal", "interval"], published: float
) -> None:
    found = krippendorff_alpha(RATINGS, alone(RATINGS), level, FEW)
    assert found.value == pytest.approx(published, abs=0.0005)
    # The twelfth unit has one rating, which pairs with none.
    assert found.n == 11
    assert found.low is not None
    assert found.high is not None
    assert found.low < published < found.high


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
def test_alphas_interval_is_of_the_alphas_of_resampled_items(
    level: Literal["nominal", "ordinal", "interval"],
) -> None:
    random = np.random.default_rng(3)
    middle = random.integers(1, 6, 80)
    cells = np.clip(middle[:, None] + random.integers(-1, 2, (80, 3)), 1, 5).astype(float)
    ratings = {
        str(n): {f"r{k}": v for k, v in enumerate(row) if (n + k) % 4}
        for n, row in enumerate(cells)
    }
    found = krippendorff_alpha(ratings, alone(ratings), level, Resampling(1000))
    kept = [
        [v if (n + k) % 4 else np.nan for k, v in enumerate(row)] for n, row in enumerate(cells)
    ]
    data = np.array(kept)
    drawn = [
        krippendorff.alpha(data[rows].T, level_of_measurement=level)
        for rows in (random.integers(0, 80, 80) for _ in range(1000))
    ]
    assert found.value == pytest.approx(krippendorff.alpha(data.T, level_of_measurement=level))
    low, high = np.quantile(drawn, [0.025, 0.975])
    assert found.low == pytest.approx(low, abs=0.04)
    assert found.high == pytest.approx(high, abs=0.04)


@pytest.mark.parametrize(
    ("ratings", "value", "told"),
    [
        ({}, None, "no item has ratings of two annotators"),
        ({"1": {"a": "x"}, "2": {"a": "y"}}, None, "no item has ratings of two annotators"),
        ({"1": {"a": "x", "b": "x"}, "2": {"a": "x", "b": "x"}}, None, "every rating is the same"),
        ({"1": {"a": "x", "b": "y"}}, 0.0, "one conversation is no sample"),
    ],
)
def test_alpha_that_cannot_be(
    ratings: dict[str, dict[str, str]], value: float | None, told: str
) -> None:
    found = krippendorff_alpha(ratings, alone(ratings), "nominal", FEW)
    assert found.value == value
    assert found.low is None
    assert found.reason is not None
    assert told in found.reason


@needs(MLQE)
@pytest.mark.parametrize(
    ("pair", "alpha"),
    [("ende", 0.38), ("enzh", 0.24), ("eten", 0.61), ("roen", 0.78), ("ruen", 0.90)],
)
def test_raters_of_real_translations(pair: str, alpha: float) -> None:
    ratings, _ = direct_assessments(pair)
    found = krippendorff_alpha(ratings, alone(ratings), "interval", FEW)
    assert found.value == pytest.approx(alpha, abs=0.005)
    assert found.low is not None
    assert found.high is not None
    assert found.low < alpha < found.high
    ordinal = krippendorff_alpha(ratings, alone(ratings), "ordinal", FEW)
    assert ordinal.value is not None
    assert f"an ordinal alpha has an interval up to {MOST_ORDINAL_VALUES}" in str(ordinal.reason)


@needs(PANDALM)
def test_preferences_of_three_annotators() -> None:
    rows = json.loads((PANDALM / "testset-v1.json").read_text(encoding="utf-8"))
    names = ("annotator1", "annotator2", "annotator3")
    ratings = {str(row["idx"]): {name: str(row[name]) for name in names} for row in rows}
    assert len(ratings) == 999
    assert sum(len(set(given.values())) == 1 for given in ratings.values()) == 879
    columns = {name: [row[name] for row in rows] for name in names}
    for pair in pairs(ratings, alone(ratings), FEW):
        expected = metrics.cohen_kappa_score(columns[pair.first], columns[pair.second])
        assert pair.kappa.value == pytest.approx(expected)
    alpha = krippendorff_alpha(ratings, alone(ratings), "nominal", FEW).value
    independent = krippendorff.alpha(list(columns.values()), level_of_measurement="nominal")
    assert alpha == pytest.approx(independent)
    # An evaluator that says what the first annotator says is as good as a person.
    first = {str(row["idx"]): str(row["annotator1"]) for row in rows}
    ceiling = human_ceiling(ratings, first, alone(ratings), ["0", "1", "2"], FEW)
    people, machine = ceiling.people["accuracy"].value, ceiling.evaluator["accuracy"].value
    assert people is not None
    assert machine is not None
    assert machine >= people
    ties = sum(
        len({given[b], given[c]}) == 2
        for given in ratings.values()
        for _, b, c in (names, (names[1], names[0], names[2]), (names[2], names[0], names[1]))
    )
    assert (ceiling.n, ceiling.ties, ceiling.alone) == (3 * 999 - ties, ties, 0)


def test_pairs_share_items_or_are_left_out() -> None:
    ratings = {
        "1": {"ann": 1.0, "bob": 2.0},
        "2": {"ann": 5.0, "bob": 5.0, "cem": 4.0},
        "3": {"ann": 3.0, "bob": 3.0},
        "4": {"dee": 3.0},
    }
    found = {(p.first, p.second): p.kappa for p in pairs(ratings, alone(ratings), FEW)}
    assert set(found) == {("ann", "bob"), ("ann", "cem"), ("bob", "cem")}
    expected = metrics.cohen_kappa_score(
        [1, 5, 3], [2, 5, 3], weights="quadratic", labels=range(1, 6)
    )
    assert found["ann", "bob"].value == pytest.approx(expected)
    assert found["ann", "cem"].value is None
    assert str(found["ann", "cem"].reason).startswith("one record")


def test_ceiling_worked_by_hand() -> None:
    ratings = {
        "1": {"a": "x", "b": "x", "c": "x"},
        "2": {"a": "x", "b": "x", "c": "y"},
        "3": {"a": "y"},
        "4": {"a": "y", "b": "y"},
        "5": {"a": "y", "b": "y"},
    }
    evaluator = {"1": "x", "2": "y", "3": "y", "4": "y", "5": None}
    found = human_ceiling(ratings, evaluator, alone(ratings), ["x", "y"], FEW)
    # 1: three right. 2: a and b face a tie, c is wrong against x. 4: two right. 3 is alone, 5 unanswered.
    assert (found.n, found.ties, found.alone) == (6, 2, 1)
    assert found.people["accuracy"].value == pytest.approx(5 / 6)
    assert found.evaluator["accuracy"].value == pytest.approx(5 / 6)
    assert found.gap["accuracy"].value == pytest.approx(0)


@needs(MLQE)
def test_ceiling_of_real_translations() -> None:
    ratings, model = direct_assessments("roen")
    some = dict(list(ratings.items())[:300])
    found = human_ceiling(some, model, alone(some), None, FEW)
    people, machine = found.people["pearson"].value, found.evaluator["pearson"].value
    others, own, of_model = [], [], []
    for item, given in some.items():
        for rater, value in given.items():
            others.append(np.mean([v for r, v in given.items() if r != rater]))
            own.append(value)
            of_model.append(model[item])
    assert people == pytest.approx(np.corrcoef(others, own)[0, 1])
    assert machine == pytest.approx(np.corrcoef(others, of_model)[0, 1])
    assert found.gap["pearson"].high is not None
    assert found.gap["pearson"].high < 0


@pytest.mark.parametrize(
    ("given", "expected"),
    [([], None), (["a"], "a"), (["a", "b"], None), (["a", "b", "b"], "b"), (["a", "b", "c"], None)],
)
def test_majority(given: list[str], expected: str | None) -> None:
    assert majority(given) == expected
    assert consensus(given) == expected


def test_numbers_agree_on_their_mean() -> None:
    assert consensus([1.0, 2.0, 4.5]) == 2.5
