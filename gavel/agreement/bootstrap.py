"""The bootstrap of figures that are functions of sums, resampling clusters; and paired tests of two systems.

Turns of one conversation resemble each other, so what is drawn with replacement are conversations (clusters),
not rows (Field & Welsh 2007, J. R. Stat. Soc. B 69). Every figure is a function of sums over clusters: a
resample is then one product of matrices, and thousands of resamples of every figure cost seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, stats

from gavel.settings.dialogue import Dialogue
from gavel.settings.fashion import Fashion
from gavel.settings.trust import Alignment

Floats: TypeAlias = NDArray[np.float64]
Features: TypeAlias = "Floats | sparse.csr_array[Any]"
"""One row a cluster (or record), one column a thing that is summed."""

T = TypeVar("T")
Value: TypeAlias = Callable[[Floats], Floats]
"""Figures of sums: shape (..., columns) to (...) or (..., figures); NaN where a figure is undefined."""

MOST_UNDEFINED = 0.05
"""The share of resamples that may leave a figure undefined before its interval is given up."""

_JACKKNIFE_GROUPS = 1000
"""More clusters than this are left out in groups: the acceleration is the same, but for the third digit."""

_CHUNK = 250
"""Resamples made at a time."""
_KEPT = 32_000_000
"""Numbers of draws, of two bytes each, kept for the next figure over as many clusters; more are drawn again."""

_RESAMPLES_A_PAIR, _MOST_RESAMPLES = 200, 20_000


@dataclass(frozen=True)
class Resampling:
    """How intervals are made: `resamples` draws of clusters, from `seed`, for `confidence`."""

    resamples: int = 2000
    confidence: float = 0.95
    seed: int = 7

    @classmethod
    def of(cls, settings: Alignment | Dialogue | Fashion) -> Resampling:
        """As a section of suite.yaml says."""
        return cls(settings.resamples, settings.confidence, settings.seed)

    def for_pairs(self, pairs: int) -> Resampling:
        """With so many resamples that a p-value can be small though it is corrected for `pairs` (Holm).

        The least p-value possible, 1 or 2 in as many, is below 0.05 also when it is multiplied by up to 499 pairs;
        beyond them `_MOST_RESAMPLES` bound the time.
        """
        enough = min(_RESAMPLES_A_PAIR * pairs, _MOST_RESAMPLES)
        return replace(self, resamples=max(self.resamples, enough))


@dataclass(frozen=True)
class Estimate:
    """A figure with its interval over `n` records in `clusters` conversations.

    `value`, or only `low` and `high`, are None exactly where `reason` says why.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    clusters: int = 0
    reason: str | None = None


@dataclass(frozen=True)
class Difference:
    """First minus second on the same records; `p` is two-sided. None exactly where `reason` says why."""

    value: float | None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    n: int = 0
    reason: str | None = None


def by_cluster(features: Features, clusters: Sequence[Hashable]) -> sparse.csr_array[Any]:
    """The sums of the records' `features` over each cluster, clusters in order of their first record."""
    codes = cluster_codes(clusters)
    count = int(codes.max()) + 1 if len(codes) else 0
    ones = np.ones(len(codes))
    member = sparse.csr_array((ones, (codes, np.arange(len(codes)))), shape=(count, len(codes)))
    return sparse.csr_array(member @ sparse.csr_array(features))


def cluster_codes(clusters: Sequence[Hashable]) -> NDArray[np.int64]:
    """A number from 0 for each cluster, in order of first appearance."""
    known: dict[Hashable, int] = {}
    return np.array([known.setdefault(name, len(known)) for name in clusters], dtype=np.int64)


def estimate(
    sums: Features,
    value: Value,
    undefined: Sequence[str],
    resampling: Resampling,
    n: int,
    *,
    method: Literal["bca", "percentile"] = "bca",
) -> list[Estimate]:
    """Every figure of `value` over the clusters of `sums`, with its interval.

    `undefined` gives, a figure each, the reason in words where the value itself is undefined. Intervals are
    bias-corrected and accelerated (Efron 1987, J. Am. Stat. Assoc. 82; ties of a resample with the value count
    as half), or plain percentiles. Resamples that leave a figure undefined are left out.
    """
    clusters = sums.shape[0]
    total = np.asarray(sums.sum(axis=0), dtype=np.float64).ravel()
    points = np.atleast_1d(value(total)) if clusters else np.full(len(undefined), np.nan)
    if len(points) != len(undefined):
        raise ValueError(f"{len(points)} figures and {len(undefined)} reasons")
    if clusters < 2:
        return _alone(partial(Estimate, n=n, clusters=clusters), points, undefined)
    drawn = _two_dimensional(resampled(sums, value, resampling))
    left_out = _two_dimensional(value(_jackknife(sums, total))) if method == "bca" else None
    found = []
    for column, (point, reason) in enumerate(zip(points, undefined, strict=True)):
        if np.isnan(point):
            found.append(Estimate(None, n=n, clusters=clusters, reason=reason))
            continue
        influence = None if left_out is None else left_out[:, column]
        low, high, why_not = _interval(
            float(point), drawn[:, column], influence, resampling.confidence
        )
        found.append(Estimate(float(point), low, high, n, clusters, why_not))
    return found


def difference(
    first: Features,
    second: Features,
    value: Value,
    undefined: Sequence[str],
    resampling: Resampling,
    n: int,
    *,
    test: Literal["bootstrap", "randomisation"] = "bootstrap",
) -> list[Difference]:
    """Every figure of `first` minus the same of `second`, whose rows are the same clusters in the same order.

    The interval is of the paired bootstrap: both are computed on the same resamples, percentiles are
    taken. `p` is twice the smaller share of resamples on either side of 0 (Efron & Tibshirani 1993, ch. 15), or by
    exchanging the two within clusters at random (approximate randomisation, Noreen 1989); one is added to
    count and trials, so that it is never 0.
    """
    clusters, width = first.shape[0], first.shape[1]

    def both(sums: Floats) -> Floats:
        return np.asarray(value(sums[..., :width]) - value(sums[..., width:]))

    stacked = sparse.csr_array(
        sparse.hstack([sparse.csr_array(first), sparse.csr_array(second)], format="csr")
    )
    total = np.asarray(stacked.sum(axis=0), dtype=np.float64).ravel()
    points = np.atleast_1d(both(total)) if clusters else np.full(len(undefined), np.nan)
    if clusters < 2:
        return _alone(partial(Difference, n=n), points, undefined)
    drawn = _two_dimensional(resampled(stacked, both, resampling))
    swapped = None
    if test == "randomisation":
        swapped = _two_dimensional(_randomised(stacked, both, width, total, resampling))
    found = []
    for column, (point, reason) in enumerate(zip(points, undefined, strict=True)):
        sample = drawn[:, column]
        low, high, why_not = _interval(float(point), sample, None, resampling.confidence)
        if np.isnan(point):
            found.append(Difference(None, n=n, reason=reason))
            continue
        sample = sample[~np.isnan(sample)]
        if swapped is not None:
            trials = swapped[~np.isnan(swapped[:, column]), column]
            extreme = int((np.abs(trials) >= abs(point) - 1e-9).sum())
            p = (extreme + 1) / (len(trials) + 1)
        else:
            tail = min(int((sample <= 0).sum()), int((sample >= 0).sum()))
            p = min(1.0, 2 * (tail + 1) / (len(sample) + 1))
        found.append(Difference(float(point), low, high, p, n, why_not))
    return found


def resampled(sums: Features, value: Value, resampling: Resampling) -> Floats:
    """The figures of `resampling.resamples` draws of clusters with replacement, one row a draw."""
    return np.concatenate([value(drawn) for drawn in _draws_of(sums, resampling)])


def holm(values: Sequence[float | None]) -> list[float | None]:
    """p-values corrected for their number, after Holm 1979; None, a test not made, stays and does not count."""
    made = [n for n, p in enumerate(values) if p is not None]
    corrected = list(values)
    highest = 0.0
    for rank, n in enumerate(sorted(made, key=lambda n: values[n] or 0.0)):
        highest = max(highest, min(1.0, (values[n] or 0.0) * (len(made) - rank)))
        corrected[n] = highest
    return corrected


@dataclass(frozen=True)
class McNemar:
    """`first_only` records only the first had right, `second_only` only the second."""

    first_only: int
    second_only: int
    p: float | None
    reason: str | None = None


def mcnemar(first_right: Sequence[bool], second_right: Sequence[bool]) -> McNemar:
    """McNemar's test, exact: of the records on which two differ, is each as often right (McNemar 1947).

    It takes records as independent, which turns of one conversation are not quite.
    """
    first, second = np.asarray(first_right, bool), np.asarray(second_right, bool)
    one, other = int((first & ~second).sum()), int((~first & second).sum())
    if one + other == 0:
        return McNemar(one, other, None, "no record that only one of the two has right")
    return McNemar(one, other, float(stats.binomtest(one, one + other).pvalue))


def _alone(made: Callable[..., T], points: Floats, undefined: Sequence[str]) -> list[T]:
    """The figures of a single cluster or none: values without intervals."""
    why = "one conversation is no sample to resample"
    return [
        made(None, reason=reason) if np.isnan(point) else made(float(point), reason=why)
        for point, reason in zip(points, undefined, strict=True)
    ]


def _two_dimensional(values: Floats) -> Floats:
    return values[:, None] if values.ndim == 1 else values


def _draws_of(sums: Features, resampling: Resampling) -> Iterator[Floats]:
    """The sums of the draws, `_CHUNK` at a time."""
    size = sums.shape[0], resampling.resamples, resampling.seed
    across = sparse.csr_array(sums).T.tocsr()
    for draws in _kept_draws(*size) if size[0] * size[1] <= _KEPT else _draws(*size):
        times = draws.T.astype(np.float64, order="C")
        yield np.ascontiguousarray((across @ times).T)


@lru_cache(maxsize=4)
def _kept_draws(clusters: int, resamples: int, seed: int) -> Sequence[NDArray[np.uint16]]:
    return list(_draws(clusters, resamples, seed))


def _draws(clusters: int, resamples: int, seed: int) -> Iterator[NDArray[np.uint16]]:
    """How often each draw, a row, holds each cluster, a column; `_CHUNK` draws at a time."""
    random = np.random.default_rng(seed)
    for start in range(0, resamples, _CHUNK):
        rows = min(_CHUNK, resamples - start)
        chosen = random.integers(0, clusters, (rows, clusters))
        chosen += np.arange(rows)[:, None] * clusters
        counts = np.bincount(chosen.ravel(), minlength=rows * clusters)
        yield counts.reshape(rows, clusters).astype(np.uint16)


def _randomised(
    stacked: sparse.csr_array[Any], both: Value, width: int, total: Floats, resampling: Resampling
) -> Floats:
    """The differences when each cluster's two results change places or not, by a coin."""
    random = np.random.default_rng(resampling.seed)
    across = (stacked[:, width:] - stacked[:, :width]).T.tocsr()
    found = []
    for start in range(0, resampling.resamples, _CHUNK):
        rows = min(_CHUNK, resampling.resamples - start)
        coins = random.integers(0, 2, (rows, stacked.shape[0])).astype(np.float64)
        moved = (across @ coins.T).T
        found.append(both(np.hstack([total[:width] + moved, total[width:] - moved])))
    return np.concatenate(found)


def _jackknife(sums: Features, total: Floats) -> Floats:
    """The sums without each cluster, or without each group of clusters where there are very many."""
    clusters = sums.shape[0]
    groups = np.arange(clusters) % min(clusters, _JACKKNIFE_GROUPS)
    return np.asarray(total - by_cluster(sums, groups.tolist()).toarray())


def _interval(
    point: float, drawn: Floats, left_out: Floats | None, confidence: float
) -> tuple[float | None, float | None, str | None]:
    """Lower and upper end, or the reason why there are none."""
    defined = drawn[~np.isnan(drawn)]
    if len(defined) < (1 - MOST_UNDEFINED) * len(drawn):
        share = 1 - len(defined) / len(drawn)
        return None, None, f"{share:.0%} of the resamples leave it undefined: too few records"
    if np.ptp(defined) <= 1e-12 * max(1.0, abs(point)):
        return None, None, "every resample gives the same value, which says nothing of its spread"
    tails = np.array([(1 - confidence) / 2, (1 + confidence) / 2])
    if left_out is not None:
        same = 1e-9 * max(1.0, abs(point))
        below = ((defined < point - same).sum() + (defined <= point + same).sum()) / 2
        below /= len(defined)
        if not 0 < below < 1:
            return None, None, "every resample lies on one side of the value: too few records"
        shift = stats.norm.ppf(below)
        known = left_out[~np.isnan(left_out)]
        spread = known.mean() - known
        scale = 6 * float((spread**2).sum()) ** 1.5
        acceleration = float((spread**3).sum()) / scale if scale > 0 else 0.0
        moved = shift + stats.norm.ppf(tails)
        tails = stats.norm.cdf(shift + moved / (1 - acceleration * moved))
    low, high = np.quantile(defined, tails)
    return float(low), float(high), None
