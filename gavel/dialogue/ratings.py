"""Human ratings of systems on a five-point scale, several raters an item, beside the automatic figures."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np

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


def rate(items: dict[str, list[float]], resamples: int, confidence: float, seed: int) -> Estimate:
    """The mean of the items' mean ratings, with its percentile interval over resampled items."""
    means = np.array([np.mean(items[item]) for item in sorted(items)])
    draws = np.random.default_rng(seed).integers(0, len(means), (resamples, len(means)))
    tail = (1 - confidence) / 2
    low, high = np.quantile(means[draws].mean(axis=1), [tail, 1 - tail])
    return Estimate(
        "human_rating", float(means.mean()), float(low), float(high), len(means), undefined=0
    )


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
