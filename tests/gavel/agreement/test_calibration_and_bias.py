"""Calibration and bias against scikit-learn, least squares and values worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss

from gavel.agreement.bias import family, group_bias, length_bias, position_bias
from gavel.agreement.bootstrap import Resampling
from gavel.agreement.calibration import calibration, recalibration

FEW = Resampling(300)


def test_calibration_worked_by_hand() -> None:
    confidence = [0.0, 0.1, 0.15, 0.95, 0.9, 1.0]
    right = [False, True, False, True, False, True]
    found = calibration(confidence, right, range(6), FEW)
    assert [(b.low, b.high, b.n) for b in found.bins] == [
        (0.0, 0.1, 2),
        (0.1, 0.2, 1),
        (0.8, 0.9, 1),
        (0.9, 1.0, 2),
    ]
    # |.1 - 1| + |.15 - 0| + |.9 - 0| + |1.95 - 2| over 6
    assert found.ece.value == pytest.approx((0.9 + 0.15 + 0.9 + 0.05) / 6)
    assert found.gap.value == pytest.approx((sum(confidence) - 3) / 6)
    assert found.brier.value == pytest.approx(brier_score_loss(right, confidence))
    assert [b.right.value for b in found.bins] == [0.5, 0.0, 0.0, 1.0]


def test_a_record_of_weight_three_counts_as_three() -> None:
    random = np.random.default_rng(11)
    sure = random.uniform(0, 1, 400).round(2)
    right = random.uniform(0, 1, 400) < sure**2
    weights = random.integers(1, 4, 400)
    every = np.repeat(np.arange(400), weights)
    ours = calibration(sure.tolist(), right.tolist(), range(400), FEW, weights.tolist())
    theirs = calibration(sure[every].tolist(), right[every].tolist(), every.tolist(), FEW)
    for one, other in ((ours.ece, theirs.ece), (ours.brier, theirs.brier), (ours.gap, theirs.gap)):
        assert one.value == pytest.approx(other.value)
        assert (one.low, one.high) == pytest.approx((other.low, other.high))
    for own, same in zip(ours.bins, theirs.bins, strict=True):
        assert own.confidence == pytest.approx(same.confidence)
        assert own.right.value == pytest.approx(same.right.value)
    again = recalibration(sure.tolist(), right.tolist(), range(400), FEW, weights.tolist())
    copies = recalibration(sure[every].tolist(), right[every].tolist(), every.tolist(), FEW)
    assert np.asarray(again.knots) == pytest.approx(np.asarray(copies.knots))
    assert again.brier_gain is not None
    assert copies.brier_gain is not None
    assert again.brier_gain.value == pytest.approx(copies.brier_gain.value)


def test_recalibration_is_measured_on_the_other_half() -> None:
    random = np.random.default_rng(11)
    sure = random.random(2000)
    right = random.random(2000) < sure**3
    found = recalibration(sure.tolist(), right.tolist(), range(2000), FEW)
    assert found.before is not None
    assert found.after is not None
    assert found.brier_gain is not None
    assert found.before.gap.value is not None
    assert found.before.gap.value > 0.2
    assert found.after.ece.value is not None
    assert found.after.ece.value < 0.06
    assert found.brier_gain.low is not None
    assert found.brier_gain.low > 0
    assert found.before.n == 1000
    chosen = np.random.default_rng(FEW.seed).permutation(2000) < 1000
    curve = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(
        sure[chosen], right[chosen].astype(float)
    )
    after = brier_score_loss(right[~chosen], curve.predict(sure[~chosen]))
    assert found.after.brier.value == pytest.approx(after)


def test_too_few_to_recalibrate_and_nothing_to_calibrate() -> None:
    few = recalibration([0.5] * 10, [True] * 10, range(10), FEW)
    assert (few.before, few.after) == (None, None)
    assert few.reason == "5 records in a half; at least 20 are needed"
    one = recalibration([0.5] * 100, [True] * 100, [1] * 100, FEW)
    assert one.reason is not None
    nothing = calibration([], [], [], FEW)
    assert (nothing.ece.value, nothing.brier.value, nothing.bins) == (None, None, ())
    assert nothing.ece.reason == "no record has a confidence and a label"
    with pytest.raises(ValueError, match="not within 0 and 1"):
        calibration([1.5], [True], [1], FEW)


def test_length_against_least_squares() -> None:
    random = np.random.default_rng(11)
    n = 300
    human = random.integers(1, 6, n).astype(float)
    length = random.integers(5, 500, n)
    evaluator = 0.7 * human + 0.15 * np.log2(1 + length) + random.normal(0, 0.4, n)
    found = length_bias(evaluator.tolist(), human.tolist(), length.tolist(), range(n), FEW)
    design = np.stack([np.ones(n), human, np.log2(1 + length)], axis=1)
    solved, residual, *_ = np.linalg.lstsq(design, evaluator, rcond=None)
    assert found.effect.value == pytest.approx(solved[2])
    assert found.size.value == pytest.approx(solved[2] / np.sqrt(residual[0] / (n - 3)))
    # The classical standard error of the coefficient.
    covariance = np.linalg.inv(design.T @ design) * residual[0] / (n - 3)
    half = 1.96 * covariance[2, 2] ** 0.5
    assert found.effect.low == pytest.approx(solved[2] - half, abs=half / 3)
    assert found.sure
    held = length_bias(evaluator.tolist(), [3.0] * n, length.tolist(), range(n), FEW)
    assert held.effect.value == pytest.approx(np.polyfit(np.log2(1 + length), evaluator, 1)[0])


def test_groups_at_the_same_human_score() -> None:
    random = np.random.default_rng(11)
    n = 300
    human = random.integers(1, 6, n).astype(float)
    # The group is better, and the evaluator avoids the ends of the scale: its errors alone would accuse it.
    inside = random.random(n) < 0.1 + 0.15 * human
    evaluator = 1.5 + 0.5 * human + np.where(inside, 0.3, 0.0) + random.normal(0, 0.2, n)
    found = group_bias(evaluator.tolist(), human.tolist(), inside.tolist(), range(n), FEW, "fr")
    design = np.stack([np.ones(n), human, inside], axis=1)
    solved, residual, *_ = np.linalg.lstsq(design, evaluator, rcond=None)
    assert found.effect.value == pytest.approx(solved[2])
    assert found.effect.value == pytest.approx(0.3, abs=0.08)
    assert found.size.value == pytest.approx(solved[2] / np.sqrt(residual[0] / (n - 3)))
    assert found.sure
    errors = evaluator - human
    assert errors[inside].mean() - errors[~inside].mean() < 0
    # Of two groups at one human score it is the difference of means, and Cohen's d but for a degree of freedom.
    held = group_bias(evaluator.tolist(), [3.0] * n, inside.tolist(), range(n), FEW, "fr")
    one, other = evaluator[inside], evaluator[~inside]
    assert held.effect.value == pytest.approx(one.mean() - other.mean())
    squares = sum(((e - e.mean()) ** 2).sum() for e in (one, other))
    assert held.size.value == pytest.approx(
        (one.mean() - other.mean()) / np.sqrt(squares / (n - 3))
    )


def test_positions() -> None:
    found = position_bias([1, 1, 1, 0, 0.5, 1, 0, 1] * 20, list(range(80)) * 2, FEW)
    assert found.effect.value == pytest.approx(5.5 / 8 - 0.5)
    assert found.sure
    even = position_bias([1, 0] * 40, np.repeat(range(40), 2).tolist(), FEW)
    assert even.effect.value == 0
    assert not even.sure


@pytest.mark.parametrize("scores", [[], [3.0], [3.0, 4.0], [3.0, 3.0, 3.0, 3.0]])
def test_bias_that_cannot_be_told_says_why(scores: list[float]) -> None:
    count = len(scores)
    length = length_bias(scores, scores, [5] * count, range(count), FEW)
    group = group_bias(scores, scores, [True] * count, range(count), FEW, "g")
    position = position_bias([], [], FEW)
    for effect in (length, group, position):
        assert effect.effect.value is None
        assert effect.effect.reason
        assert effect.size.reason
        assert not effect.sure


@pytest.mark.parametrize(
    ("model", "expected"),
    [("Qwen/Qwen3-8B", "qwen"), ("gpt-4o-mini", "gpt"), ("heuristic-1", "heuristic"), ("7b", "")],
)
def test_family(model: str, expected: str) -> None:
    assert family(model) == expected
