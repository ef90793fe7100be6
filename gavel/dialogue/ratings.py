"""Human ratings of systems on a five-point scale, several raters an item, beside the automatic figures.

Whatever they come from, ratings are rows of system, item, rater and rating, which `collect` checks; a
CSV file is one such source. A bad row is left out and told: it must not keep the other figures of any system back.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gavel.agreement.annotators import krippendorff_alpha
from gavel.agreement.bootstrap import Resampling, estimate
from gavel.dialogue.figures import Estimate
from gavel.dialogue.predictions import content_hash

COLUMNS = ("system", "item", "rater", "rating")
LOWEST, HIGHEST = 1, 5


@dataclass(frozen=True)
class Ratings:
    """System -> item -> rater -> rating; `fingerprint` changes with any of them.

    `notes` tell what was left out, and of which repeated rating the later stands, a sentence each.
    """

    systems: Mapping[str, Mapping[str, Mapping[str, float]]]
    fingerprint: str
    notes: Sequence[str] = ()


def read_ratings(path: Path, systems: Collection[str]) -> Ratings:
    """The ratings of `systems` in a CSV file with the columns system, item, rater and rating.

    A file that cannot be read has none, and the note says why.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file)
            if absent := [name for name in COLUMNS if name not in (rows.fieldnames or ())]:
                why = f"has no column {absent[0]!r}; needed: {', '.join(COLUMNS)}"
            else:
                lines = ((f"{path}: line {rows.line_num}", row) for row in rows)
                return collect(lines, systems, content_hash(path))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = f"cannot be read ({error})"
    return Ratings({}, "", [f"{path}: {why}; the leaderboard is without ratings"])


def collect(
    rows: Iterable[tuple[str, Mapping[str, Any]]], systems: Collection[str], fingerprint: str
) -> Ratings:
    """The ratings of `systems` in `rows`, each with where it stands, to be named where it is wrong.

    A row whose system, item or rater is empty, or whose rating is no number from 1 to 5, is left out.
    Of two ratings of one item by one rater the later stands.
    """
    found: dict[str, dict[str, dict[str, float]]] = {}
    notes = []
    strangers: dict[str, list[str]] = {}
    for where, row in rows:
        rating = _rating(row["rating"])
        system, item, rater = (row[name] for name in COLUMNS[:-1])
        if empty := [name for name in COLUMNS[:-1] if not row[name]]:
            notes.append(f"{where}: {empty[0]} is empty; accepted: a name; left out")
        elif rating is None:
            notes.append(
                f"{where}: rating is {row['rating']!r}; accepted: a number from {LOWEST} to {HIGHEST}; left out"
            )
        elif system not in systems:
            strangers.setdefault(system, []).append(where)
        else:
            raters = found.setdefault(system, {}).setdefault(item, {})
            if rater in raters:
                notes.append(
                    f"{where}: rater {rater!r} rated {item!r} of {system!r} before; this rating stands"
                )
            raters[rater] = rating
    notes += [
        f"{places[0]}: system is {system!r}, which has no results; accepted: {', '.join(systems)}; "
        f"{len(places):,} such ratings left out"
        for system, places in strangers.items()
    ]
    return Ratings(found, fingerprint, notes)


def rate(items: Mapping[str, Mapping[str, float]], resampling: Resampling) -> Estimate:
    """The mean of the items' mean ratings, with its percentile interval over resampled items."""
    means = [np.mean(list(items[item].values())) for item in sorted(items)]
    found = estimate(
        np.stack([means, np.ones(len(means))], axis=1),
        lambda sums: np.asarray(sums[..., 0] / sums[..., 1]),
        ["no item was rated"],
        resampling,
        len(means),
        method="percentile",
    )[0]
    return Estimate("human_rating", found.value, found.low, found.high, len(means), undefined=0)


def agreement(items: Mapping[str, Mapping[str, float]], resampling: Resampling) -> Estimate:
    """Krippendorff's alpha of the raters, ratings being ordered; undefined counts the items with one rater."""
    alpha = krippendorff_alpha(items, {item: item for item in items}, "ordinal", resampling)
    alone = sum(len(raters) < 2 for raters in items.values())
    return Estimate("rater_alpha", alpha.value, alpha.low, alpha.high, alpha.n, undefined=alone)


def _rating(given: Any) -> float | None:
    try:
        rating = float(given)
    except (TypeError, ValueError):
        return None
    return rating if LOWEST <= rating <= HIGHEST else None
