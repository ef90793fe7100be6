"""How well labels agree with a reference: accuracy, macro F1, each class, kappa, confusion; with intervals."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

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

FIGURES = ("accuracy", "macro_f1", "kappa")
"""The figures of a label as a whole."""

_UNDEFINED = (
    "no record has both labels",
    "no record has both labels",
    "both sides give one class only, the same: no chance agreement to correct for",
)


@dataclass(frozen=True)
class ClassAgreement:
    """One class: `support` records have it in the reference, `predicted` in what is compared."""

    name: str
    precision: Estimate
    recall: Estimate
    f1: Estimate
    support: int
    predicted: int


@dataclass(frozen=True)
class LabelAgreement:
    """`figures` has an estimate for each of FIGURES. `excluded` records lack one of the two labels.

    `absent` are the classes that no reference label names; `confusion` counts (reference, given).
    """

    figures: Mapping[str, Estimate]
    classes: tuple[ClassAgreement, ...]
    absent: tuple[str, ...]
    confusion: Mapping[tuple[str, str], int]
    n: int
    excluded: int


def label_agreement(
    reference: Sequence[str | None],
    given: Sequence[str | None],
    clusters: Sequence[Hashable],
    classes: Sequence[str],
    resampling: Resampling,
    weights: Sequence[float] | None = None,
) -> LabelAgreement:
    """The agreement of `given` with `reference`, one entry a record; None is no label, and is excluded.

    Macro F1 is the mean of 2tp / (reference + given) over the classes that either side names, every class
    equal. Kappa is Cohen's (1960), (p_o - p_e) / (1 - p_e). `weights` are inverse inclusion probabilities
    and make the figures estimates for the population that was sampled; counts stay counts. A class that
    `classes` lacks, such as "" for no valid verdict, counts as wrong and is no class of macro F1 when only
    given, never in the reference.

    Raises:
        ValueError: a reference label is none of `classes`, or the sequences differ in length.
    """
    kept = [
        (r, g, c, 1.0 if weights is None else weights[n])
        for n, (r, g, c) in enumerate(zip(reference, given, clusters, strict=True))
        if r is not None and g is not None
    ]
    excluded = len(reference) - len(kept)
    truth, said = [r for r, *_ in kept], [g for _, g, *_ in kept]
    features = _features(truth, said, classes, [w for *_, w in kept])
    count = len(classes)
    f1_reason = "the class occurs on neither side"
    reasons = [
        *_UNDEFINED,
        *["the class is never given"] * count,
        *["no record of the sample has the class"] * count,
        *[f1_reason] * count,
    ]
    found = estimate(
        by_cluster(features, [c for _, _, c, _ in kept]),
        lambda sums: _every_figure(sums, count),
        reasons,
        resampling,
        len(kept),
    )
    supports = dict.fromkeys(classes, 0)
    predictions = dict(supports)
    confusion: dict[tuple[str, str], int] = {}
    for r, g in zip(truth, said, strict=True):
        supports[r] += 1
        if g in predictions:
            predictions[g] += 1
        confusion[r, g] = confusion.get((r, g), 0) + 1
    each = [
        ClassAgreement(
            name,
            found[3 + n],
            found[3 + count + n],
            found[3 + 2 * count + n],
            supports[name],
            predictions[name],
        )
        for n, name in enumerate(classes)
    ]
    absent = tuple(name for name in classes if not supports[name])
    figures = dict(zip(FIGURES, found, strict=False))
    return LabelAgreement(
        figures, tuple(each), absent, dict(sorted(confusion.items())), len(kept), excluded
    )


def label_figures(
    reference: Sequence[str],
    given: Sequence[str],
    clusters: Sequence[Hashable],
    classes: Sequence[str],
    resampling: Resampling,
) -> dict[str, Estimate]:
    """Each of `FIGURES` as `label_agreement` has it, without the classes one by one."""
    sums = by_cluster(_features(reference, given, classes, [1.0] * len(reference)), clusters)
    found = estimate(
        sums, lambda s: _overall(s, len(classes)), _UNDEFINED, resampling, len(reference)
    )
    return dict(zip(FIGURES, found, strict=True))


def compare_labels(
    reference: Sequence[str | None],
    first: Sequence[str | None],
    second: Sequence[str | None],
    clusters: Sequence[Hashable],
    classes: Sequence[str],
    resampling: Resampling,
) -> dict[str, Difference]:
    """Each of `FIGURES` of `first` minus that of `second` on the records that have all three labels."""
    kept = [
        entry
        for entry in zip(reference, first, second, clusters, strict=True)
        if None not in entry[:3]
    ]
    truth, one, other = ([str(entry[side]) for entry in kept] for side in range(3))
    even = [1.0] * len(kept)
    names = [entry[3] for entry in kept]
    found = difference(
        by_cluster(_features(truth, one, classes, even), names),
        by_cluster(_features(truth, other, classes, even), names),
        lambda sums: _overall(sums, len(classes)),
        _UNDEFINED,
        resampling,
        len(kept),
    )
    return dict(zip(FIGURES, found, strict=True))


def _features(
    truth: Sequence[str], said: Sequence[str], classes: Sequence[str], weights: Sequence[float]
) -> Features:
    """A row a record: 1, and for each class whether it is right, in the reference, given."""
    code = {name: n for n, name in enumerate(classes)}
    if unknown := sorted({r for r in truth if r not in code}):
        raise ValueError(f"reference label {unknown[0]!r} is none of the {len(classes)} classes")
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    width = len(classes)
    for n, (r, g, w) in enumerate(zip(truth, said, weights, strict=True)):
        here = [0, 1 + width + code[r]]
        if r == g:
            here.append(1 + code[r])
        if g in code:
            here.append(1 + 2 * width + code[g])
        rows += [n] * len(here)
        columns += here
        values += [w] * len(here)
    shape = (len(truth), 1 + 3 * width)
    return sparse.csr_array((values, (rows, columns)), shape=shape, dtype=np.float64)


def _parts(sums: Floats, classes: int) -> tuple[Floats, Floats, Floats, Floats]:
    """n, right, reference and given counts by class."""
    return (
        sums[..., 0],
        sums[..., 1 : 1 + classes],
        sums[..., 1 + classes : 1 + 2 * classes],
        sums[..., 1 + 2 * classes :],
    )


def _overall(sums: Floats, classes: int) -> Floats:
    n, right, reference, given = _parts(sums, classes)
    with np.errstate(divide="ignore", invalid="ignore"):
        accuracy = right.sum(axis=-1) / n
        f1 = 2 * right / (reference + given)
        defined = ~np.isnan(f1)
        macro = np.where(defined, f1, 0).sum(axis=-1) / defined.sum(axis=-1)
        chance = (reference * given).sum(axis=-1) / n**2
        kappa = np.where(
            chance < 1 - 1e-12, (accuracy - chance) / np.maximum(1 - chance, 1e-12), np.nan
        )
    return np.stack([accuracy, macro, kappa], axis=-1)


def _every_figure(sums: Floats, classes: int) -> Floats:
    _, right, reference, given = _parts(sums, classes)
    with np.errstate(divide="ignore", invalid="ignore"):
        each = [right / given, right / reference, 2 * right / (reference + given)]
    return np.concatenate([_overall(sums, classes), *each], axis=-1)
