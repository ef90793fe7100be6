"""Does confidence mean what it says? Reliability, expected calibration error, Brier score, recalibration."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.isotonic import IsotonicRegression

from gavel.agreement.bootstrap import (
    Difference,
    Estimate,
    Floats,
    Resampling,
    by_cluster,
    cluster_codes,
    difference,
    estimate,
)

BINS = 10


@dataclass(frozen=True)
class Bin:
    """Records whose confidence is in (low, high], the first bin with its low end: how often they are right."""

    low: float
    high: float
    n: int
    confidence: float
    right: Estimate


@dataclass(frozen=True)
class Calibration:
    """`ece` is the expected calibration error, `brier` the mean squared error of the confidence.

    `gap` is mean confidence minus the share that is right: above 0 it is overconfident.
    """

    ece: Estimate
    brier: Estimate
    gap: Estimate
    bins: tuple[Bin, ...]
    n: int


@dataclass(frozen=True)
class Recalibration:
    """Measured on the half that the curve was not fitted on; `knots` are (confidence, corrected).

    None of the parts but `reason` where there are too few records.
    """

    before: Calibration | None
    after: Calibration | None
    brier_gain: Difference | None
    knots: tuple[tuple[float, float], ...]
    reason: str | None = None


def calibration(
    confidence: Sequence[float],
    right: Sequence[bool],
    clusters: Sequence[Hashable],
    resampling: Resampling,
    weights: Sequence[float] | None = None,
) -> Calibration:
    """Confidence (0..1) against being right, record by record; `weights` are how many records each stands for.

    ECE = sum over BINS equal bins of n_b/n * |mean confidence - share right| (Naeini, Cooper & Hauskrecht
    2015, AAAI). It is never below 0: where few records make the bins noisy, it is above the truth. A resample adds
    noise of its own, so that an interval would leave the truth of a well-calibrated one out: it has none.
    """
    p, hit, w = _arrays(confidence, right, weights)
    if len(p) and not (np.isfinite(p).all() and p.min() >= 0 and p.max() <= 1):
        raise ValueError("a confidence is not within 0 and 1")
    none = "no record has a confidence and a label"
    if not len(p):
        nothing = Estimate(None, reason=none)
        return Calibration(nothing, nothing, nothing, (), 0)
    where = _bin_of(p)
    features = np.zeros((len(p), 2 + 3 * BINS))
    rows = np.arange(len(p))
    features[:, 0], features[:, 1] = 1, (p - hit) ** 2
    for offset, value in ((2, np.ones(len(p))), (2 + BINS, p), (2 + 2 * BINS, hit)):
        features[rows, offset + where] = value
    found = estimate(
        by_cluster(features * w[:, None], clusters),
        _figures,
        [none] * 3 + ["the bin is empty"] * BINS,
        resampling,
        len(p),
    )
    edges = np.linspace(0, 1, BINS + 1)
    bins = tuple(
        Bin(
            float(edges[b]),
            float(edges[b + 1]),
            int((where == b).sum()),
            float(np.average(p[where == b], weights=w[where == b])),
            found[3 + b],
        )
        for b in range(BINS)
        if (where == b).any()
    )
    ece = replace(
        found[0], low=None, high=None, reason="no interval: chance alone keeps it above 0"
    )
    return Calibration(ece, found[1], found[2], bins, len(p))


def recalibration(
    confidence: Sequence[float],
    right: Sequence[bool],
    clusters: Sequence[Hashable],
    resampling: Resampling,
    weights: Sequence[float] | None = None,
    least: int = 20,
) -> Recalibration:
    """Isotonic regression fitted on one half of the conversations and measured on the other.

    Halves are drawn by `resampling.seed`. (Zadrozny & Elkan 2002, KDD.) Fewer than `least` records in a half are
    too few.
    """
    p, hit, w = _arrays(confidence, right, weights)
    codes = cluster_codes(clusters)
    count = int(codes.max()) + 1 if len(codes) else 0
    chosen = np.random.default_rng(resampling.seed).permutation(count) < count // 2
    fitting = chosen[codes] if count else np.zeros(0, bool)
    fewest = min(int(fitting.sum()), int((~fitting).sum()))
    if fewest < least:
        return Recalibration(
            *(None, None, None, ()),
            reason=f"{fewest} records in a half; at least {least} are needed",
        )
    curve = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
    curve.fit(p[fitting], hit[fitting], sample_weight=w[fitting])
    kept = np.flatnonzero(~fitting).tolist()
    names, known = [clusters[k] for k in kept], [bool(hit[k]) for k in kept]
    corrected = np.clip(curve.predict(p[kept]), 0, 1)
    errors = [
        by_cluster(np.stack([w[kept], w[kept] * (q - hit[kept]) ** 2], axis=1), names)
        for q in (p[kept], corrected)
    ]
    gain = difference(errors[0], errors[1], _mean, ["no record"], resampling, len(kept))[0]
    knots = zip(curve.X_thresholds_.tolist(), curve.y_thresholds_.tolist(), strict=True)
    return Recalibration(
        calibration(p[kept].tolist(), known, names, resampling, w[kept].tolist()),
        calibration(corrected.tolist(), known, names, resampling, w[kept].tolist()),
        gain,
        tuple(knots),
    )


def _arrays(
    confidence: Sequence[float], right: Sequence[bool], weights: Sequence[float] | None
) -> tuple[Floats, Floats, Floats]:
    p = np.asarray(confidence, np.float64)
    return (
        p,
        np.asarray(right, np.float64),
        np.ones_like(p) if weights is None else np.asarray(weights),
    )


def _bin_of(p: Floats) -> Any:
    """The bin of every confidence: (0, .1], (.1, .2], ..., where 0 belongs to the first."""
    return np.clip(np.ceil(np.round(p * BINS, 9)).astype(np.int64) - 1, 0, BINS - 1)


def _figures(sums: Floats) -> Floats:
    n, squared = sums[..., 0], sums[..., 1]
    count, p, hit = (sums[..., 2 + k * BINS : 2 + (k + 1) * BINS] for k in range(3))
    with np.errstate(divide="ignore", invalid="ignore"):
        # n_b * |mean confidence - share right| is |sum of confidence - number right|.
        ece = np.abs(p - hit).sum(axis=-1) / n
        gap = (p - hit).sum(axis=-1) / n
        return np.concatenate([np.stack([ece, squared / n, gap], axis=-1), hit / count], axis=-1)


def _mean(sums: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(sums[..., 1] / sums[..., 0])
