"""How well annotators agree with each other, and so how well any evaluator can be expected to agree with them.

Ratings are a mapping: item -> annotator -> value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import fsum
from typing import Any, Literal, TypeVar

import krippendorff
import numpy as np
from scipy import sparse

from gavel.agreement.bootstrap import (
    Difference,
    Estimate,
    Floats,
    Resampling,
    Value,
    by_cluster,
    estimate,
)
from gavel.agreement.dimensions import compare_dimensions, dimension_agreement
from gavel.agreement.labels import compare_labels, label_figures

_MOST_CELLS = 30_000_000
"""Items times values squared up to which the package takes less than a second."""

V = TypeVar("V", str, float)
Ratings = Mapping[str, Mapping[str, V]]
Level = Literal["nominal", "ordinal", "interval"]

MOST_ORDINAL_VALUES = 40
"""Distinct values up to which the interval of an ordinal alpha is computed: it needs their square."""


@dataclass(frozen=True)
class PairAgreement:
    """Two annotators on the items that both rated: Cohen's kappa, quadratic-weighted for numbers."""

    first: str
    second: str
    kappa: Estimate


@dataclass(frozen=True)
class Ceiling:
    """Annotators held against the consensus of the others, and the evaluator against the same.

    `people` and `evaluator` are the figures of `label_agreement` or `dimension_agreement`, by name; `gap`
    is evaluator minus people. `ties` ratings had others without a majority, `alone` had none to be held against.
    """

    people: Mapping[str, Estimate]
    evaluator: Mapping[str, Estimate]
    gap: Mapping[str, Difference]
    n: int
    ties: int
    alone: int


def majority(values: Sequence[str]) -> str | None:
    """The value that more give than any other; None where there is none."""
    if len(values) == 1:
        return values[0]
    ranked = Counter(values).most_common(2)
    if not ranked or (len(ranked) == 2 and ranked[0][1] == ranked[1][1]):
        return None
    return ranked[0][0]


def consensus(values: Sequence[V]) -> V | None:
    """The majority of labels, or the mean of numbers; None where there is none."""
    if not values:
        return None
    if isinstance(values[0], str):
        return majority(values)
    return fsum(values) / len(values)


def pairs(
    ratings: Ratings[Any], clusters: Mapping[str, Hashable], resampling: Resampling
) -> list[PairAgreement]:
    """Cohen's kappa of every two annotators that share an item, in alphabetical order.

    For numbers it is quadratic-weighted. `clusters` gives the conversation of every item.
    """
    by_annotator: dict[str, dict[str, Any]] = {}
    for item, given in ratings.items():
        for annotator, value in given.items():
            by_annotator.setdefault(annotator, {})[item] = value
    found = []
    for first, second in combinations(sorted(by_annotator), 2):
        one, other = by_annotator[first], by_annotator[second]
        shared = [item for item in ratings if item in one and item in other]
        if not shared:
            continue
        a, b = [one[item] for item in shared], [other[item] for item in shared]
        names = [clusters[item] for item in shared]
        if isinstance(a[0], str):
            kappa = label_figures(a, b, names, sorted({*a, *b}), resampling)["kappa"]
        else:
            kappa = dimension_agreement(a, b, names, resampling).figures["quadratic_kappa"]
        found.append(PairAgreement(first, second, kappa))
    return found


def krippendorff_alpha(
    ratings: Ratings[Any], clusters: Mapping[str, Hashable], level: Level, resampling: Resampling
) -> Estimate:
    """Krippendorff's alpha over the items with two ratings or more: 1 - D_observed / D_expected.

    The value is the `krippendorff` package's, but for very many items with very many values, for which it takes
    minutes; the interval resamples conversations. `n` counts items.
    (Krippendorff 2011, Computing Krippendorff's Alpha-Reliability.)
    """
    pairable = {item: list(given.values()) for item, given in ratings.items() if len(given) > 1}
    if not pairable:
        return Estimate(None, reason="no item has ratings of two annotators")
    n = len(pairable)
    domain = sorted({value for values in pairable.values() for value in values})
    if len(domain) < 2:
        why = "every rating is the same: no disagreement could be seen"
        return Estimate(None, n=n, reason=why)
    code = {value: k for k, value in enumerate(domain)}
    counts = np.zeros((n, len(domain)))
    for row, values in enumerate(pairable.values()):
        for value in values:
            counts[row, code[value]] += 1
    numbers = None if level == "nominal" else np.array(domain, np.float64)
    if counts.size * len(domain) <= _MOST_CELLS:
        value = float(
            krippendorff.alpha(
                value_counts=counts,
                value_domain=domain if numbers is None else numbers,
                level_of_measurement=level,
            )
        )
    else:
        features, figure = _alpha(counts, numbers, level)
        value = float(figure(np.asarray(features.sum(axis=0))))
    names = [clusters[item] for item in pairable]
    if level == "ordinal" and len(domain) > MOST_ORDINAL_VALUES:
        why = f"{len(domain)} distinct values: an ordinal alpha has an interval up to {MOST_ORDINAL_VALUES}"
        return Estimate(value, n=n, clusters=len(set(names)), reason=why)
    features, figure = _alpha(counts, numbers, level)
    found = estimate(by_cluster(features, names), figure, ["undefined"], resampling, n)[0]
    return Estimate(value, found.low, found.high, n, found.clusters, found.reason)


def _alpha(counts: Floats, numbers: Floats | None, level: Level) -> tuple[Any, Value]:
    """What alpha sums over items, a row an item; and alpha of such sums.

    An item's m ratings make pairs, each of weight 1/(m-1); alpha needs how often each value is in a pair, and how
    much the values of the pairs differ.
    """
    size = counts.sum(axis=1)
    if level == "ordinal":
        # A difference depends on how many ratings lie between: only the whole table of pairs will do.
        each = counts[:, :, None] * counts[:, None, :]
        index = np.arange(counts.shape[1])
        each[:, index, index] -= counts
        flat = (each / (size - 1)[:, None, None]).reshape(len(counts), -1)
        return sparse.csr_array(flat), _ordinal_alpha(counts.shape[1])
    if level == "nominal":
        apart = (size**2 - (counts**2).sum(axis=1)) / (size - 1)

        def nominal(sums: Floats) -> Floats:
            marginals = sums[..., 1:]
            total = marginals.sum(axis=-1)
            expected = (total**2 - (marginals**2).sum(axis=-1)) / (total - 1)
            return _one_minus(sums[..., 0], expected)

        return np.column_stack([apart, counts]), nominal
    assert numbers is not None
    centred = numbers - numbers.mean()
    first, second = counts @ centred, counts @ centred**2
    apart = 2 * (size * second - first**2) / (size - 1)

    def interval(sums: Floats) -> Floats:
        observed, total, one, two = (sums[..., k] for k in range(4))
        return _one_minus(observed, 2 * (total * two - one**2) / (total - 1))

    return np.column_stack([apart, size, first, second]), interval


def _ordinal_alpha(values: int) -> Value:
    def ordinal(sums: Floats) -> Floats:
        table = sums.reshape(*sums.shape[:-1], values, values)
        marginals = table.sum(axis=-1)
        middle = np.cumsum(marginals, axis=-1) - marginals / 2
        apart = (middle[..., :, None] - middle[..., None, :]) ** 2
        expected = (marginals[..., :, None] * marginals[..., None, :] * apart).sum(axis=(-2, -1))
        total = marginals.sum(axis=-1)
        return _one_minus((table * apart).sum(axis=(-2, -1)), expected / (total - 1))

    return ordinal


def _one_minus(observed: Floats, expected: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(expected > 1e-12, 1 - observed / expected, np.nan)


def human_ceiling(
    ratings: Ratings[Any],
    evaluator: Mapping[str, Any],
    clusters: Mapping[str, Hashable],
    classes: Sequence[str] | None,
    resampling: Resampling,
) -> Ceiling:
    """How well one annotator predicts the others, and how well the evaluator does on exactly the same.

    Every rating is held against the consensus of the other annotators of its item (majority of labels, mean
    of numbers), pooled over annotators; the evaluator's value of the item is held against that same consensus. An
    evaluator within the interval of the gap from 0 is as good as one more annotator. `classes` are the
    label's values, None for numbers. Items that the evaluator has no value for are left out of both.
    """
    others: list[Any] = []
    people: list[Any] = []
    machine: list[Any] = []
    names: list[Hashable] = []
    ties = alone = 0
    for item, given in ratings.items():
        if evaluator.get(item) is None:
            continue
        for annotator, value in given.items():
            rest = [v for other, v in given.items() if other != annotator]
            held_against = consensus(rest)
            if held_against is None:
                ties, alone = ties + bool(rest), alone + (not rest)
                continue
            others.append(held_against)
            people.append(value)
            machine.append(evaluator[item])
            names.append(clusters[item])
    if classes is None:
        return Ceiling(
            dimension_agreement(others, people, names, resampling).figures,
            dimension_agreement(others, machine, names, resampling).figures,
            compare_dimensions(others, machine, people, names, resampling),
            *(len(others), ties, alone),
        )
    return Ceiling(
        label_figures(others, people, names, classes, resampling),
        label_figures(others, machine, names, classes, resampling),
        compare_labels(others, machine, people, names, classes, resampling),
        *(len(others), ties, alone),
    )
