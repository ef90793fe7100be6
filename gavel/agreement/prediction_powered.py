"""A mean that people would give, from the evaluator's many scores and people's few: prediction-powered inference.

Angelopoulos, Bates, Fannjiang, Jordan & Zrnic 2023 (Science 382), with the power tuning of Angelopoulos, Duchi &
Zrnic 2023 (PPI++, arXiv 2311.01453), extended in two ways that the published packages lack: variances are
of clusters, since turns of one conversation resemble each other (linearised ratio means, Cochran 1977, Sampling
Techniques, ch. 6), and labelled records may carry inverse inclusion probabilities (Hajek's ratio mean).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from gavel.agreement.bootstrap import Estimate, Floats, cluster_codes

Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Corrected:
    """`corrected` is the mean by people, `naive` the evaluator's own mean, `people` of the labelled alone.

    `power` is the weight lambda given to the evaluator, from 0 (it tells nothing) to 1.
    """

    corrected: Estimate
    naive: Estimate
    people: Estimate
    power: float | None


def corrected_mean(
    human: Sequence[float],
    evaluator_labelled: Sequence[float],
    evaluator_all: Sequence[float],
    *,
    labelled_clusters: Sequence[Hashable],
    all_clusters: Sequence[Hashable],
    weights: Sequence[float] | None = None,
    confidence: float = 0.95,
    power: float | None = None,
    within: tuple[float, float] = (-np.inf, np.inf),
) -> Corrected:
    """The mean that people would give over all records, of which they have labelled some.

    theta = mean(y, labelled) + lambda * (mean(f, all) - mean(f, labelled)). `power` is lambda; without it
    it is the one with the least variance, cov(y, d) / var(d) of the two means, where d = mean(f, labelled) -
    mean(f, all), kept in 0..1. The interval is theta -+ t * sqrt(var(y - lambda * d)), with Student's t of the
    effective number of labelled clusters less one. `within` are the bounds that a mean cannot leave.

    `evaluator_all` are the scores of the population: every record, labelled ones included (what both
    share is taken into account by cluster), or as in the paper others of the same population. `naive` takes
    the evaluator at its word over them.
    """
    y, f = np.asarray(human, np.float64), np.asarray(evaluator_labelled, np.float64)
    everyone = np.asarray(evaluator_all, np.float64)
    for values in (y, f, everyone):
        if not np.isfinite(values).all():
            raise ValueError("a value is not finite; leave out the records without one")
    w = np.ones(len(y)) if weights is None else np.asarray(weights, np.float64)
    codes = cluster_codes([*labelled_clusters, *all_clusters])
    own, other = codes[: len(y)], codes[len(y) :]
    naive = _within(_plain(everyone, np.ones(len(everyone)), other, confidence), within)
    people = _within(_plain(y, w, own, confidence), within)
    if people.value is None or not len(everyone):
        return Corrected(people, naive, people, None if people.value is None else 0.0)
    apart = [
        _influence(y, w, own, codes),
        _influence(f, w, own, codes) - _influence(everyone, np.ones(len(everyone)), other, codes),
    ]
    (of_people, of_both), (_, of_apart) = np.asarray(apart) @ np.asarray(apart).T
    if power is None:
        power = min(1.0, max(0.0, float(of_both / of_apart))) if of_apart > 0 else 0.0
    value = people.value + power * float(everyone.mean() - np.average(f, weights=w))
    variance = float(of_people - 2 * power * of_both + power**2 * of_apart)
    corrected = _between(value, variance, len(y), w, own, confidence)
    return Corrected(_within(corrected, within), naive, people, power)


def effective_size(weights: Sequence[float] | Floats) -> float:
    """How many equally weighted records say as much: (sum w)^2 / sum w^2 (Kish 1965, Survey Sampling)."""
    w = np.asarray(weights, np.float64)
    return float(w.sum() ** 2 / (w @ w)) if len(w) else 0.0


def _plain(values: Floats, weights: Floats, clusters: Codes, confidence: float) -> Estimate:
    """The weighted mean with its interval by the spread of clusters."""
    if not len(values):
        return Estimate(None, reason="no record has a value")
    spread = _influence(values, weights, clusters, clusters)
    mean = float(np.average(values, weights=weights))
    return _between(mean, float(spread @ spread), len(values), weights, clusters, confidence)


def _between(
    value: float, variance: float, n: int, weights: Floats, codes: Codes, confidence: float
) -> Estimate:
    clusters = _count(codes)
    if clusters < 2:
        why = "one conversation is no sample: its spread cannot be seen"
        return Estimate(value, n=n, clusters=clusters, reason=why)
    if variance <= 1e-18 * max(1.0, value**2):
        why = "every value is the same, which says nothing of the spread"
        return Estimate(value, n=n, clusters=clusters, reason=why)
    totals = np.bincount(codes, weights).astype(np.float64)
    # Equal clusters that are equally weighted count as what they are, whatever the last digit of the sum.
    freedom = max(1.0, round(effective_size(totals[totals > 0]), 9) - 1)
    half = float(stats.t.ppf((1 + confidence) / 2, freedom)) * variance**0.5
    return Estimate(value, value - half, value + half, n, clusters)


def _within(made: Estimate, bounds: tuple[float, float]) -> Estimate:
    if made.value is None or made.low is None or made.high is None:
        return made
    low, value, high = (float(np.clip(v, *bounds)) for v in (made.low, made.value, made.high))
    return replace(made, low=low, value=value, high=high)


def _influence(values: Floats, weights: Floats, clusters: Codes, every: Codes) -> Floats:
    """What each of `every` cluster adds to the weighted mean, whose variance is their sum of squares."""
    share = weights / weights.sum()
    off = share * (values - share @ values)
    totals = np.bincount(clusters, off, int(every.max()) + 1).astype(np.float64)
    count = _count(clusters)
    return np.asarray(totals * (count / (count - 1)) ** 0.5) if count > 1 else totals


def _count(clusters: Codes) -> int:
    return len(np.unique(clusters))
