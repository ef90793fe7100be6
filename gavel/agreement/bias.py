"""Is the evaluator biased? Its score against something that should not matter, the human score held fixed."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from gavel.agreement.bootstrap import Estimate, Floats, Resampling, by_cluster, estimate


@dataclass(frozen=True)
class Effect:
    """`effect` in points of the score; `size` the same in standard deviations of the errors, without a unit."""

    name: str
    effect: Estimate
    size: Estimate

    @property
    def sure(self) -> bool:
        """Whether the interval of the effect leaves out 0."""
        low, high = self.effect.low, self.effect.high
        return low is not None and high is not None and (low > 0 or high < 0)


def length_bias(
    evaluator: Sequence[float],
    human: Sequence[float],
    lengths: Sequence[int],
    clusters: Sequence[Hashable],
    resampling: Resampling,
) -> Effect:
    """What twice the length adds to the evaluator's score at the same human score."""
    doublings = np.log2(1 + np.asarray(lengths, np.float64))
    reason = "too few records, or lengths or scores that are all the same"
    return _held_fixed(evaluator, human, doublings, clusters, resampling, "length", reason)


def group_bias(
    evaluator: Sequence[float],
    human: Sequence[float],
    inside: Sequence[bool],
    clusters: Sequence[Hashable],
    resampling: Resampling,
    name: str,
) -> Effect:
    """What being `inside` a group adds to the evaluator's score at the same human score."""
    group = np.asarray(inside, np.float64)
    reason = "every record is of the group, or none, or too few are"
    return _held_fixed(evaluator, human, group, clusters, resampling, name, reason)


def _held_fixed(
    evaluator: Sequence[float],
    human: Sequence[float],
    x: Floats,
    clusters: Sequence[Hashable],
    resampling: Resampling,
    name: str,
    reason: str,
) -> Effect:
    """Least squares of the score on the human score and x: the coefficient of x.

    `size` divides it by the standard deviation of the residuals, as Cohen's d (1988) does for two groups.
    """
    y, h = np.asarray(evaluator, np.float64), np.asarray(human, np.float64)
    if len(y):
        y, h, x = y - y.mean(), h - h.mean(), x - x.mean()
    columns = np.stack([np.ones(len(y)), h, x, y], axis=1)
    products = (columns[:, :, None] * columns[:, None, :]).reshape(len(y), 16)
    reasons = [reason, f"{reason}, or the scores follow from each other"]
    found = estimate(by_cluster(products, clusters), _slopes, reasons, resampling, len(y))
    return Effect(name, found[0], found[1])


def position_bias(
    first_preferred: Sequence[float], clusters: Sequence[Hashable], resampling: Resampling
) -> Effect:
    """How often the answer shown first is preferred, less one half, over both orders of every pair.

    1 is the first, 0 the second, 0.5 a tie; with both orders asked, an evaluator that looks only at the answers
    has 0. `size` is the same in standard deviations of one choice.
    """
    value = np.asarray(first_preferred, np.float64)
    features = np.stack([np.ones(len(value)), value, value**2], axis=1)
    reasons = ["no pair was asked about and answered", "every choice is the same"]
    found = estimate(by_cluster(features, clusters), _position, reasons, resampling, len(value))
    return Effect("position", found[0], found[1])


def family(model: str) -> str:
    """The family of a model's name: its first word, without the owner ("Qwen/Qwen3-8B" is "qwen")."""
    letters = model.rsplit("/", 1)[-1].lower()
    return "".join(_leading_letters(letters))


def _leading_letters(text: str) -> list[str]:
    found = []
    for letter in text:
        if not letter.isalpha():
            break
        found.append(letter)
    return found


def _slopes(sums: Floats) -> Floats:
    """The slope of x, and the same over the residuals' standard deviation."""
    products = sums.reshape(*sums.shape[:-1], 4, 4)
    n = products[..., 0, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        centred = (
            products[..., 1:, 1:]
            - products[..., 0, 1:, None] * products[..., 0, None, 1:] / n[..., None, None]
        )
        hh, xx, yy = (centred[..., k, k] for k in range(3))
        hx, hy, xy = centred[..., 0, 1], centred[..., 0, 2], centred[..., 1, 2]
        # A human score that is the same everywhere is held fixed already.
        varies = hh > 1e-9 * n
        determinant = np.where(varies, hh * xx - hx**2, xx)
        solvable = (determinant > 1e-9 * np.where(varies, hh * xx, 1.0)) & (xx > 1e-9 * n)
        slope = np.where(varies, hh * xy - hx * hy, xy) / np.where(solvable, determinant, np.nan)
        human = np.where(varies, (hy - slope * hx) / np.where(varies, hh, 1.0), 0.0)
        residual = yy - slope * xy - human * hy
        spread = np.sqrt(np.where(residual > 1e-9 * n, residual / (n - 3), np.nan))
        return np.stack([slope, slope / np.where(n > 3, spread, np.nan)], axis=-1)


def _position(sums: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        n, total, squared = (sums[..., k] for k in range(3))
        share = total / n
        spread = squared / n - share**2
        return np.stack(
            [share - 0.5, (share - 0.5) / np.sqrt(np.where(spread > 1e-12, spread, np.nan))],
            axis=-1,
        )
