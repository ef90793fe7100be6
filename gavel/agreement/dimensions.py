"""How well numbers agree with a reference: correlations, errors, quadratic-weighted kappa; with intervals.

All are functions of sums over records: moments for most; for the rank correlations the weight of every
distinct pair of values, so that a resample needs no sorting.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, stats

from gavel.agreement.bootstrap import (
    Difference,
    Estimate,
    Features,
    Floats,
    Resampling,
    by_cluster,
    difference,
    estimate,
)

FIGURES = ("pearson", "spearman", "kendall", "mae", "bias", "quadratic_kappa")
"""The figures of a dimension; bias is the mean of given minus reference."""

_NONE = "no record has both values"
_CONSTANT = "one side has the same value everywhere: nothing to correlate"
_UNDEFINED = (
    *(_CONSTANT, _CONSTANT, _CONSTANT, _NONE, _NONE),
    "both sides have one value everywhere, the same: no chance agreement to correct for",
)

ONE_RECORD = "one record: there is no agreement by chance to correct for"

MOST_PAIRS = 2500
"""Distinct pairs of values up to which rank correlations are resampled exactly."""

_MOMENTS = 7


@dataclass(frozen=True)
class DimensionAgreement:
    """`figures` has an estimate for each of FIGURES. `excluded` records lack one of the two values."""

    figures: Mapping[str, Estimate]
    n: int
    excluded: int


def dimension_agreement(
    reference: Sequence[float | None],
    given: Sequence[float | None],
    clusters: Sequence[Hashable],
    resampling: Resampling,
    weights: Sequence[float] | None = None,
) -> DimensionAgreement:
    """The agreement of `given` with `reference`, one entry a record; None is no value, and is excluded.

    - Spearman: Pearson's correlation of mid-ranks. Kendall: tau-b (Kendall 1945), corrected for ties.
    - Quadratic-weighted kappa (Cohen 1968) on equally spaced values is 1 - mean (x-y)^2 / (mean x^2 +
      mean y^2 - 2 mean x mean y), which also holds for values between the grades, such as means of annotators.
    - `weights` are inverse inclusion probabilities and make the figures estimates for the population.

    Where there are more than MOST_PAIRS distinct pairs of values, intervals of the two rank correlations are those
    of values rounded to 32 quantiles a side, moved by the difference this makes to the figure.

    Raises:
        ValueError: the sequences differ in length, or a value is NaN.
    """
    x, y, names, kept_weights = _kept([reference, given], clusters, weights)
    excluded = len(reference) - len(x)
    if not len(x):
        return DimensionAgreement(dict.fromkeys(FIGURES, Estimate(None, reason=_NONE)), 0, excluded)
    centre = float(x.mean())
    pairs, (of,) = _distinct(x, y)
    rounded = len(pairs) > MOST_PAIRS
    if rounded:
        exact = _exactly_ranked(x, y, kept_weights)
        pairs, (of,) = _distinct(_rounded(x), _rounded(y))
    sums = by_cluster(_features(x - centre, y - centre, of, len(pairs), kept_weights), names)
    found = estimate(
        sums, lambda drawn: _every_figure(drawn, pairs, centre), _UNDEFINED, resampling, len(x)
    )
    if rounded:
        found[1:3] = [_moved(each, to) for each, to in zip(found[1:3], exact, strict=True)]
    if len(x) == 1:
        found[FIGURES.index("quadratic_kappa")] = Estimate(None, n=1, clusters=1, reason=ONE_RECORD)
    return DimensionAgreement(dict(zip(FIGURES, found, strict=True)), len(x), excluded)


def compare_dimensions(
    reference: Sequence[float | None],
    first: Sequence[float | None],
    second: Sequence[float | None],
    clusters: Sequence[Hashable],
    resampling: Resampling,
) -> dict[str, Difference]:
    """Each of `FIGURES` of `first` minus that of `second` on the records that have all three values.

    Beyond MOST_PAIRS distinct pairs, rank correlations are of values rounded to 32 quantiles a side.
    """
    x, one, other, names, even = _kept([reference, first, second], clusters, None)
    if not len(x):
        return dict.fromkeys(FIGURES, Difference(None, reason=_NONE))
    centre = float(x.mean())
    pairs, of = _distinct(x, one, other)
    if len(pairs) > MOST_PAIRS:
        pairs, of = _distinct(_rounded(x), _rounded(one), _rounded(other))
    sides = [
        by_cluster(_features(x - centre, y - centre, own, len(pairs), even), names)
        for y, own in zip((one, other), of, strict=True)
    ]
    found = difference(
        sides[0],
        sides[1],
        lambda drawn: _every_figure(drawn, pairs, centre),
        _UNDEFINED,
        resampling,
        len(x),
    )
    return dict(zip(FIGURES, found, strict=True))


def _exactly_ranked(x: Floats, y: Floats, weights: Floats) -> list[float]:
    """Spearman and Kendall of very many distinct pairs; without unequal weights by sorting, which is faster."""
    if np.ptp(weights) == 0:
        return [float(stats.spearmanr(x, y)[0]), float(stats.kendalltau(x, y)[0])]
    pairs, (of,) = _distinct(x, y)
    found: list[float] = _ranked(np.asarray(np.bincount(of, weights)[None, :]), pairs)[0].tolist()
    return found


def _kept(
    columns: Sequence[Sequence[float | None]],
    clusters: Sequence[Hashable],
    weights: Sequence[float] | None,
) -> tuple[Any, ...]:
    """The columns, the clusters and the weights of the records in which every column has a value."""
    arrays = [np.array([np.nan if v is None else v for v in c], np.float64) for c in columns]
    absent = [np.array([v is None for v in column], bool) for column in columns]
    for array, none in zip(arrays, absent, strict=True):
        if not np.isfinite(array[~none]).all():
            raise ValueError("a value is not finite; None stands for no value")
    if len({len(array) for array in arrays} | {len(clusters)}) > 1:
        raise ValueError("reference, values and clusters differ in length")
    whole = ~np.logical_or.reduce(absent)
    every = np.ones(len(whole)) if weights is None else np.asarray(weights, np.float64)
    names = [name for name, kept in zip(clusters, whole, strict=True) if kept]
    # Means of equal ratings in another order differ in the last bits, and are the same.
    return *(np.round(array[whole], 9) for array in arrays), names, every[whole]


def _distinct(x: Floats, *given: Floats) -> tuple[Floats, list[NDArray[np.int64]]]:
    """The distinct pairs of x with any of `given`, one a row; and for each of `given`, every record's pair."""
    every = np.concatenate([np.stack([x, y], axis=1) for y in given])
    pairs, of = np.unique(every, axis=0, return_inverse=True)
    return pairs, np.split(of.ravel(), len(given))


def _rounded(values: Floats) -> Floats:
    """The values rounded to the mean of each of 32 groups of about equal size."""
    edges = np.quantile(values, np.linspace(0, 1, 33)[1:-1])
    groups = np.searchsorted(np.unique(edges), values)
    return np.asarray(np.bincount(groups, values) / np.maximum(np.bincount(groups), 1))[groups]


def _features(
    x: Floats, y: Floats, pair: NDArray[np.int64], pairs: int, weights: Floats
) -> Features:
    """A row a record: 1, x, y, xx, yy, xy, |y - x|, and which pair of values it has."""
    moments = np.stack([np.ones(len(x)), x, y, x * x, y * y, x * y, np.abs(y - x)], axis=1)
    here = sparse.csr_array((np.ones(len(x)), (np.arange(len(x)), pair)), shape=(len(x), pairs))
    whole = sparse.hstack([sparse.csr_array(moments), here], format="csr")
    return sparse.csr_array(sparse.diags_array(weights) @ whole)


def _every_figure(sums: Floats, pairs: Floats, centre: float) -> Floats:
    """The figures of FIGURES, in order, of sums of `_features`; x and y are less `centre`."""
    with np.errstate(divide="ignore", invalid="ignore"):
        mean_x, mean_y, xx, yy, xy, off = (sums[..., k] / sums[..., 0] for k in range(1, _MOMENTS))
        bias = mean_y - mean_x
        # Where both sides are one value, the same, expectation and observation are 0: rounding is no chance.
        by_chance = xx + yy - 2 * mean_x * mean_y
        smallest = 1e-12 * (1 + centre**2)
        kappa = 1 - (xx + yy - 2 * xy) / np.where(by_chance > smallest, by_chance, np.nan)
        pearson = _correlation(xx - mean_x**2, yy - mean_y**2, xy - mean_x * mean_y, smallest)
    ranked = _ranked(np.atleast_2d(sums[..., _MOMENTS:]), pairs)
    spearman, kendall = (ranked[:, k].reshape(sums.shape[:-1]) for k in range(2))
    return np.stack([pearson, spearman, kendall, off, bias, kappa], axis=-1)


def _correlation(of_x: Floats, of_y: Floats, of_both: Floats, smallest: float) -> Floats:
    defined = (of_x > smallest) & (of_y > smallest)
    return np.where(defined, of_both / np.sqrt(np.where(defined, of_x * of_y, 1.0)), np.nan)


def _ranked(counts: Floats, pairs: Floats) -> Floats:
    """Spearman and Kendall of every row of `counts`, the weight of each pair of values."""
    n = counts.sum(axis=1)
    first, second = (_mid_ranks(counts, pairs[:, side]) for side in range(2))
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = n / 2
        of_x, of_y, of_both = (
            (counts * a * b).sum(axis=1) / n - mean**2
            for a, b in ((first, first), (second, second), (first, second))
        )
        spearman = _correlation(of_x / n**2, of_y / n**2, of_both / n**2, 1e-14)
        agreeing = np.zeros(len(counts))
        for start in range(0, len(pairs), _BLOCK):
            here = pairs[start : start + _BLOCK]
            signs = np.sign(here[:, None, 0] - pairs[:, 0]) * np.sign(
                here[:, None, 1] - pairs[:, 1]
            )
            agreeing += ((counts @ signs.T) * counts[:, start : start + _BLOCK]).sum(axis=1)
        of_x, of_y = (
            1 - (_by_level(counts, pairs[:, k])[0] ** 2).sum(axis=1) / n**2 for k in range(2)
        )
        kendall = _correlation(of_x, of_y, agreeing / n**2, 1e-14)
    return np.stack([spearman, kendall], axis=1)


_BLOCK = 500


def _by_level(counts: Floats, values: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """The weight of every distinct value, lowest first; and which of them each pair has."""
    levels, of = np.unique(values, return_inverse=True)
    here = sparse.csr_array(
        (np.ones(len(of)), (of, np.arange(len(of)))), shape=(len(levels), len(of))
    )
    return np.asarray((here @ counts.T).T), of


def _mid_ranks(counts: Floats, values: Floats) -> Floats:
    """The middle of the ranks that the records of each pair share, from 0 to n."""
    weights, of = _by_level(counts, values)
    return np.asarray((np.cumsum(weights, axis=1) - weights / 2)[:, of])


def _moved(estimate: Estimate, to: float) -> Estimate:
    """The same estimate with another value, its interval shifted by the difference."""
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return replace(estimate, value=None if np.isnan(to) else to)
    by = to - estimate.value
    return replace(
        estimate, value=to, low=max(-1.0, estimate.low + by), high=min(1.0, estimate.high + by)
    )
