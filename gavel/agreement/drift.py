"""Has a distribution moved? Three questions: by how much, in which direction, by chance or not.

Every function takes the reference first and the current sample second. What cannot be computed is
None with a reason in words, never 0 or NaN. The tests take records as independent; turns of one
conversation are not quite, so read a p-value together with the size of the effect.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import log, sqrt
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import stats

K = TypeVar("K", bound=Hashable)

EMPTY_BIN = 0.5
"""What an empty bin counts as in the population stability index: half a record."""

MINIMUM_EXPECTED = 5.0
"""The smallest expected count for which the chi-square approximation is trusted (Cochran 1954)."""


@dataclass(frozen=True)
class Stability:
    """A population stability index; `value` is None exactly where `reason` says why."""

    value: float | None
    reason: str | None = None


@dataclass(frozen=True)
class Shift:
    """A test of two samples. `reason` says why `p_value`, and perhaps the rest, is None.

    `effect` is Cliff's delta for ordinal samples (-1..1; positive: current is higher) and
    Cramer's V for class counts (0..1).
    """

    statistic: float | None
    p_value: float | None
    effect: float | None
    reason: str | None = None


def population_stability_index(
    reference_counts: Mapping[K, int], current_counts: Mapping[K, int]
) -> Stability:
    """How far the current shares c of the bins stand from the reference shares r, from 0 upwards.

    PSI = sum over bins of (c - r) * ln(c / r), which is Jeffreys' divergence (Jeffreys 1946,
    Proc. R. Soc. A 186; the name PSI is Siddiqi's, Credit Risk Scorecards, 2006). By custom, below
    0.1 is stable and above 0.2 or 0.25 has shifted. Without any change its expectation is about
    (bins - 1) * (1/n + 1/m), so pool sparse bins (`pool_sparse`) and weigh it with a test.

    A bin absent from a mapping is empty. Bins empty in both samples are left out; one empty in
    a single sample counts as `EMPTY_BIN` records there (its logarithm would be infinite), and the
    shares of that sample are taken over the total with it.
    """
    if reason := _empty(sum(reference_counts.values()), sum(current_counts.values())):
        return Stability(None, reason)
    bins = _occupied(reference_counts, current_counts)
    reference = [reference_counts.get(key) or EMPTY_BIN for key in bins]
    current = [current_counts.get(key) or EMPTY_BIN for key in bins]
    n, m = sum(reference), sum(current)
    return Stability(
        sum(
            (c / m - r / n) * log((c / m) / (r / n))
            for r, c in zip(reference, current, strict=True)
        )
    )


def two_sample(
    reference: Sequence[float] | NDArray[np.float64], current: Sequence[float] | NDArray[np.float64]
) -> Shift:
    """Mann-Whitney U test of two ordinal samples, two-sided, with Cliff's delta as the effect.

    U counts the pairs in which the current value is the higher, ties as half (Mann & Whitney 1947);
    U/nm is the probability of superiority and delta = 2U/nm - 1 (Cliff 1993). The p-value is exact
    for small samples without ties, else the normal approximation corrected for ties and continuity.
    It needs two values on each side and two different values overall.

    Raises:
        ValueError: a value is NaN.
    """
    n, m = len(reference), len(current)
    if reason := _empty(n, m):
        return Shift(None, None, None, reason)
    test = stats.mannwhitneyu(current, reference, alternative="two-sided", nan_policy="raise")
    u = float(test.statistic)
    effect = 2 * u / (n * m) - 1
    if min(n, m) < 2:
        return Shift(u, None, effect, f"one value is no sample to test (n = {n} and {m})")
    if np.ptp(np.concatenate([reference, current])) == 0:
        return Shift(u, None, effect, "every value is the same in both samples")
    return Shift(u, float(test.pvalue), effect)


def label_shift(reference_counts: Mapping[K, int], current_counts: Mapping[K, int]) -> Shift:
    """Pearson's chi-square test that both samples mix the classes alike, with Cramer's V.

    Sparse classes are pooled first (`pool_sparse`). For two samples V = sqrt(chi2 / (n + m))
    (Cramer 1946). No continuity correction.
    """
    if reason := _empty(sum(reference_counts.values()), sum(current_counts.values())):
        return Shift(None, None, None, reason)
    pooled = pool_sparse(reference_counts, current_counts)
    if len(pooled) < 2:
        if len(_occupied(reference_counts, current_counts)) == 1:
            reason = "both samples hold one class, the same"
        else:
            reason = f"no two classes with {MINIMUM_EXPECTED:g} records expected in each sample"
        return Shift(None, None, None, reason)
    test = stats.chi2_contingency(np.array(pooled).T, correction=False)
    statistic = float(test.statistic)
    return Shift(statistic, float(test.pvalue), sqrt(statistic / sum(r + c for r, c in pooled)))


def pool_sparse(
    reference_counts: Mapping[K, int], current_counts: Mapping[K, int]
) -> list[tuple[int, int]]:
    """(reference, current) counts a class, the sparse classes pooled into one, the last.

    A class is sparse where the counts expected under an equal mix fall below `MINIMUM_EXPECTED` in
    either sample. If the pool is sparse itself, it takes in the smallest other class.
    """
    n, m = sum(reference_counts.values()), sum(current_counts.values())
    # The expected counts are total * n/(n+m) and total * m/(n+m): the smaller sample decides.
    least = MINIMUM_EXPECTED * (n + m) / min(n, m) if min(n, m) else 0.0
    cells = [
        (reference_counts.get(key, 0), current_counts.get(key, 0))
        for key in _occupied(reference_counts, current_counts)
    ]
    cells.sort(key=lambda cell: (sum(cell), cell), reverse=True)
    kept = [cell for cell in cells if sum(cell) >= least]
    sparse = cells[len(kept) :]
    if not sparse:
        return kept
    if sum(map(sum, sparse)) < least and kept:
        sparse.append(kept.pop())
    return [*kept, (sum(r for r, _ in sparse), sum(c for _, c in sparse))]


def _occupied(first: Mapping[K, int], second: Mapping[K, int]) -> list[K]:
    return [key for key in {**first, **second} if first.get(key, 0) or second.get(key, 0)]


def _empty(reference: int, current: int) -> str | None:
    names = [name for name, size in (("reference", reference), ("current", current)) if size == 0]
    return f"the {' and the '.join(names)} sample is empty" if names else None
