"""Human ratings of systems on a five-point scale, several raters an item, beside the automatic figures.

Whatever they come from, ratings are rows of system, item, rater and rating, which `collect` checks; a
CSV file is one such source.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gavel.agreement.bootstrap import Resampling, estimate
from gavel.dialogue.figures import Estimate
from gavel.dialogue.predictions import content_hash
from gavel.errors import PredictionError

COLUMNS = ("system", "item", "rater", "rating")
LOWEST, HIGHEST = 1, 5


@dataclass(frozen=True)
class Ratings:
    """System -> item -> one rating a rater; `fingerprint` changes with any of them."""

    systems: Mapping[str, Mapping[str, Sequence[float]]]
    fingerprint: str


def read_ratings(path: Path) -> Ratings:
    """The ratings of a CSV file with the columns system, item, rater and rating.

    Raises:
        PredictionError: a column is missing, or a row is malformed; the line is named.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file)
            if absent := [name for name in COLUMNS if name not in (rows.fieldnames or ())]:
                raise PredictionError(
                    f"{path}: has no column {absent[0]!r}; needed: {', '.join(COLUMNS)}"
                )
            lines = ((f"{path}: line {rows.line_num}", row) for row in rows)
            return collect(lines, content_hash(path))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise PredictionError(f"{path}: cannot be read ({error})") from error


def collect(rows: Iterable[tuple[str, Mapping[str, Any]]], fingerprint: str) -> Ratings:
    """The ratings of `rows`, each with where it stands, to be named where it is wrong.

    Raises:
        PredictionError: system, item or rater is empty, a rating is no number from 1 to 5, or a rater
            rated an item twice.
    """
    systems: dict[str, dict[str, list[float]]] = {}
    seen = set()
    for where, row in rows:
        for name in COLUMNS[:-1]:
            if not row[name]:
                raise PredictionError(f"{where}: {name} is empty; accepted: a name")
        key = system, item, rater = row["system"], row["item"], row["rater"]
        if key in seen:
            raise PredictionError(f"{where}: rater {rater!r} rated {item!r} of {system!r} before")
        seen.add(key)
        systems.setdefault(system, {}).setdefault(item, []).append(_rating(where, row["rating"]))
    return Ratings(systems, fingerprint)


def rate(items: Mapping[str, Sequence[float]], resampling: Resampling) -> Estimate:
    """The mean of the items' mean ratings, with its percentile interval over resampled items."""
    means = [np.mean(items[item]) for item in sorted(items)]
    found = estimate(
        np.stack([means, np.ones(len(means))], axis=1),
        lambda sums: np.asarray(sums[..., 0] / sums[..., 1]),
        ["no item was rated"],
        resampling,
        len(means),
        method="percentile",
    )[0]
    return Estimate("human_rating", found.value, found.low, found.high, len(means), undefined=0)


def _rating(where: str, given: Any) -> float:
    try:
        rating = float(given)
    except (TypeError, ValueError):
        rating = float("nan")
    if not LOWEST <= rating <= HIGHEST:
        raise PredictionError(
            f"{where}: rating is {given!r}; accepted: a number from {LOWEST} to {HIGHEST}"
        )
    return rating
