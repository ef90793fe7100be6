"""Figures of one system from the rows of its dialogues: values that add up, their bootstrap, and tests.

Every figure is a function of sums over dialogues, which is what `gavel.agreement.bootstrap` resamples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gavel.agreement import bootstrap
from gavel.agreement.bootstrap import Floats as Sums
from gavel.agreement.bootstrap import Resampling
from gavel.dialogue import bleu


@dataclass(frozen=True)
class Figure:
    """A figure: the counts of a row that it needs (None: undefined there), and its value of their sums."""

    name: str
    track: str
    counts: Callable[[Mapping[str, Any]], Sequence[float] | None]
    value: Callable[[Sums], Sums]
    scale: str = "0-100"


def _share(counts: Sums) -> Sums:
    """100 * first / second; undefined (NaN) where nothing was counted."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(100 * counts[..., 0] / counts[..., 1])


def _mean(counts: Sums) -> Sums:
    return _share(counts) / 100


def _slot_f1(counts: Sums) -> Sums:
    """100 * 2 right / (2 right + spurious + missed), the harmonic mean of precision and recall."""
    right, spurious, missed = (counts[..., n] for n in range(3))
    return _share(np.stack([2 * right, 2 * right + spurious + missed], axis=-1))


def _combined(counts: Sums) -> Sums:
    """(Inform + Success) / 2 + BLEU, each on 0-100, so that the whole is on 0-200.

    (Mehri et al. 2019.) Beware of definitions with Inform and Success on 0-1: there BLEU decides all.
    """
    inform, success, dialogues = (counts[..., n] for n in range(3))
    rate = _share(np.stack([inform + success, 2 * dialogues], axis=-1))
    return np.asarray(rate + bleu.score(counts[..., 3:]))


def _of(name: str) -> Callable[[Mapping[str, Any]], Sequence[float] | None]:
    return lambda row: None if row[name] is None else (float(row[name]), 1.0)


def _tracked(*names: str) -> Callable[[Mapping[str, Any]], Sequence[float] | None]:
    return lambda row: None if row["tracking"] is None else [row["tracking"][n] for n in names]


FIGURES = (
    Figure("inform", "multiwoz", _of("inform"), _share),
    Figure("success", "multiwoz", _of("success"), _share),
    Figure("bleu", "multiwoz", lambda row: row["bleu"], bleu.score),
    Figure(
        "combined",
        "multiwoz",
        lambda row: [row["inform"], row["success"], 1.0, *row["bleu"]],
        _combined,
        "0-200",
    ),
    Figure("joint_goal", "multiwoz", _tracked("joint", "turns"), _share),
    Figure("slot_f1", "multiwoz", _tracked("right", "spurious", "missed"), _slot_f1),
    Figure("bleu_text", "multiwoz", lambda row: row["bleu_text"], bleu.score),
    Figure(
        "entity_consistency",
        "multiwoz",
        lambda row: (
            None if row["entities"] is None else [row["consistent_entities"], row["entities"]]
        ),
        _share,
    ),
    Figure("success", "dstc8", _of("success"), _share),
    Figure("book", "dstc8", _of("book"), _share),
    Figure("precision", "dstc8", _of("precision"), _share),
    Figure("recall", "dstc8", _of("recall"), _share),
    Figure("f1", "dstc8", _of("f1"), _share),
    Figure("return", "dstc8", _of("return"), _mean, "-80 to 79"),
    Figure("turns", "dstc8", _of("turns"), _mean, "1-40"),
)
"""Every figure of the leaderboard, in its order. BLEU and F1 of slots are of the sums; the rest are means
over the dialogues in which they are defined."""


@dataclass(frozen=True)
class Estimate:
    """A figure's value with its bootstrap interval; `n` dialogues had it, `undefined` had not."""

    figure: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    undefined: int


@dataclass(frozen=True)
class Comparison:
    """Two systems on the dialogues that both have: first minus second, and how likely by chance.

    The interval and `p` are None where a single dialogue, or equal results everywhere, leave nothing to resample.
    """

    figure: str
    difference: float
    low: float | None
    high: float | None
    p: float | None
    n: int


def value(figure: Figure, rows: Sequence[Mapping[str, Any]]) -> float | None:
    """The figure over `rows`; None where it is undefined for all of them."""
    counts = [found for row in rows if (found := figure.counts(row)) is not None]
    if not counts:
        return None
    result = float(figure.value(np.asarray(counts, dtype=np.float64).sum(axis=0)))
    return None if np.isnan(result) else result


def estimate(figure: Figure, rows: Sequence[Mapping[str, Any]], resampling: Resampling) -> Estimate:
    """The figure over `rows` with its percentile interval over resampled dialogues."""
    counts = [found for row in rows if (found := figure.counts(row)) is not None]
    undefined = len(rows) - len(counts)
    if not counts:
        return Estimate(figure.name, None, None, None, 0, undefined)
    made = bootstrap.estimate(
        np.asarray(counts, dtype=np.float64),
        figure.value,
        ["undefined"],
        resampling,
        len(counts),
        method="percentile",
    )[0]
    return Estimate(figure.name, made.value, made.low, made.high, len(counts), undefined)


def compare(
    figure: Figure,
    one: Mapping[str, Mapping[str, Any]],
    other: Mapping[str, Mapping[str, Any]],
    resampling: Resampling,
) -> Comparison | None:
    """The paired test of two systems' rows, by dialogue id; None where no dialogue has both.

    `p` is two-sided, by swapping dialogues at random; the interval is of the paired bootstrap.
    """
    pairs = [
        (mine, theirs)
        for name in sorted(one.keys() & other.keys())
        if (mine := figure.counts(one[name])) is not None
        and (theirs := figure.counts(other[name])) is not None
    ]
    if not pairs:
        return None
    first, second = (
        np.asarray([pair[side] for pair in pairs], dtype=np.float64) for side in (0, 1)
    )
    found = bootstrap.difference(
        *(first, second, figure.value, ["undefined"], resampling, len(pairs)), test="randomisation"
    )[0]
    if found.value is None:
        return None
    return Comparison(figure.name, found.value, found.low, found.high, found.p, len(pairs))
