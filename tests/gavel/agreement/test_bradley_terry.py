"""Bradley-Terry strengths against published values and a logistic regression."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from gavel.agreement.bradley_terry import is_connected, strengths

TEAMS = ("Milwaukee", "Detroit", "Toronto", "New York", "Boston", "Cleveland", "Baltimore")
WON = np.array(
    [
        [0, 7, 9, 7, 7, 9, 11],
        [6, 0, 7, 5, 11, 9, 9],
        [4, 6, 0, 7, 7, 8, 12],
        [6, 8, 6, 0, 6, 7, 10],
        [6, 2, 6, 7, 0, 7, 12],
        [4, 4, 5, 6, 6, 0, 6],
        [2, 4, 1, 3, 1, 7, 0],
    ],
    dtype=float,
)
"""Baseball, American League East, 1987: games that the row won against the column (Agresti 2002, table 10.10)."""
PUBLISHED = (1.581, 1.436, 1.294, 1.248, 1.108, 0.684, 0.0)
"""Their strengths as Agresti gives them, against Baltimore's."""


def by_regression(wins: np.ndarray) -> np.ndarray:
    """The same by a logistic regression of who wins on who plays, one row a pair."""
    rows, outcome, weight = [], [], []
    for i in range(len(wins)):
        for j in range(len(wins)):
            if i != j and wins[i, j]:
                row = np.zeros(len(wins))
                row[i], row[j] = 1, -1
                rows += [row, -row]
                outcome += [1, 0]
                weight += [wins[i, j], wins[i, j]]
    fit = LogisticRegression(C=1e10, fit_intercept=False, tol=1e-12, max_iter=10_000)
    found = fit.fit(rows, outcome, sample_weight=weight).coef_[0]
    return found - found.mean()


def test_the_published_strengths_come_out() -> None:
    found = strengths(WON)
    assert found - found[-1] == pytest.approx(PUBLISHED, abs=5e-4)
    assert found.mean() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_it_agrees_with_a_logistic_regression(seed: int) -> None:
    random = np.random.default_rng(seed)
    wins = random.integers(1, 20, (5, 5)).astype(float) + 0.5 * random.integers(0, 3, (5, 5))
    np.fill_diagonal(wins, 0)
    assert strengths(wins) == pytest.approx(by_regression(wins), abs=1e-5)


def test_two_systems_by_hand() -> None:
    # 3 to 1: odds of 3.
    assert strengths(np.array([[0.0, 3.0], [1.0, 0.0]])) == pytest.approx(
        [np.log(3) / 2, -np.log(3) / 2]
    )
    # A tie is half a win for each.
    assert strengths(np.array([[0.0, 0.5], [0.5, 0.0]])) == pytest.approx([0, 0])


def test_without_a_finite_maximum_it_is_undefined() -> None:
    unbeaten = np.array([[0.0, 3.0, 2.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    apart = np.array([[0.0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]])
    alone = np.array([[0.0]])
    for wins in (unbeaten, apart, alone):
        assert not is_connected(wins)
        assert np.isnan(strengths(wins)).all()


def test_many_tables_at_once() -> None:
    both = np.stack([WON, WON.T, np.zeros_like(WON)])
    found = strengths(both)
    assert found[0] == pytest.approx(strengths(WON))
    assert found[1] == pytest.approx(-found[0], abs=1e-9)
    assert np.isnan(found[2]).all()
