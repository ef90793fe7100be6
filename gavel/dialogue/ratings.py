"""Human ratings of systems on a five-point scale, several raters an item, beside the automatic figures."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np

from gavel.agreement.bootstrap import Resampling, estimate
from gavel.dialogue.figures import Estimate
from gavel.errors import PredictionError

COLUMNS = ("system", "item", "rater", "rating")
LOWEST, HIGHEST = 1, 5


def read_ratings(path: Path) -> dict[str, dict[str, list[float]]]:
    """The ratings of a CSV file: system -> item -> one rating a rater.

    Raises:
        PredictionError: a column is missing, a rating is no number from 1 to 5, or a rater rated twice.
    """
    ratings: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    seen = set()
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file)
            if absent := [name for name in COLUMNS if name not in (rows.fieldnames or ())]:
                raise PredictionError(
                    f"{path}: has no column {absent[0]!r}; needed: {', '.join(COLUMNS)}"
                )
            for number, row in enumerate(rows, 2):
                key = (row["system"], row["item"], row["rater"])
                if key in seen:
                    raise PredictionError(
                        f"{path}: line {number}: rater {key[2]!r} rated {key[1]!r} of {key[0]!r} before"
                    )
                seen.add(key)
                ratings[key[0]][key[1]].append(_rating(path, number, row["rating"]))
    except OSError as error:
        raise PredictionError(f"{path}: cannot be read ({error.strerror})") from error
    return {system: dict(items) for system, items in ratings.items()}


def rate(items: dict[str, list[float]], resampling: Resampling) -> Estimate:
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


def _rating(path: Path, number: int, given: str | None) -> float:
    try:
        rating = float(given or "")
    except ValueError:
        rating = float("nan")
    if not LOWEST <= rating <= HIGHEST:
        raise PredictionError(
            f"{path}: line {number}: rating is {given!r}; accepted: {LOWEST} to {HIGHEST}"
        )
    return rating
