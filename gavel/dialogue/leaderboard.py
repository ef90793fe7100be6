"""The leaderboard: systems x figures with intervals and published values, and the paired tests."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import Any

import pandera.polars as pandera
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from gavel.agreement.bootstrap import Resampling, holm
from gavel.dialogue.figures import FIGURES, compare, estimate
from gavel.dialogue.multiwoz import REFERENCE, STRICT
from gavel.dialogue.ratings import Ratings, agreement, rate
from gavel.settings.dialogue import Dialogue

COMPARED = (STRICT, "dstc8")
"""The readings whose systems are tested against each other."""

_NUMBERS = ("value", "low", "high")
STANDINGS = pa.schema(
    [
        *((name, pa.string()) for name in ("system", "track", "reading", "figure", "scale")),
        *((name, pa.float64()) for name in _NUMBERS),
        *((name, pa.int64()) for name in ("n", "undefined")),
        ("published", pa.float64()),
        *((name, pa.bool_()) for name in ("outdated", "gone")),
        ("signature", pa.string()),
    ]
)
"""One row a system, reading and figure; `outdated`: predictions, corpus or options have changed since.

`gone`: so much so that there is no prediction file any more.
"""

COMPARISONS = pa.schema(
    [
        *((name, pa.string()) for name in ("track", "reading", "figure", "first", "second")),
        *((name, pa.float64()) for name in ("difference", "low", "high", "p", "p_holm")),
        ("n", pa.int64()),
    ]
)
"""One row a pair of systems and figure: first minus second over the dialogues that both have."""

_FINITE = pandera.Check(lambda data: data.lazyframe.select(pl.col(data.key).is_finite()))
STANDINGS_VALID = pandera.DataFrameSchema(
    {
        "system": pandera.Column(pl.String),
        "figure": pandera.Column(pl.String),
        # An undefined figure is null; NaN would look like a number.
        **{name: pandera.Column(pl.Float64, _FINITE, nullable=True) for name in _NUMBERS},
        "n": pandera.Column(pl.Int64, pandera.Check.ge(0)),
    }
)
"""What every row of the leaderboard satisfies."""

Rows = Sequence[Mapping[str, Any]]


def leaderboard(
    settings: Dialogue,
    results: Sequence[Path],
    ratings: Ratings | None = None,
    outdated: Collection[str] = (),
    gone: Collection[str] = (),
) -> tuple[pa.Table, pa.Table]:
    """The standings and the comparisons of the systems whose results are in `results`.

    `ratings` are people's; `outdated` names the systems whose results are made from something else than
    what is there now, to be marked and compared with none; `gone` those of them that have no file any more.
    """
    by_reading: dict[tuple[str, str], dict[str, Rows]] = {}
    for path in sorted(results):
        for row in pq.read_table(path).to_pylist():
            key = (row["track"], row["reading"])
            by_reading.setdefault(key, {}).setdefault(row["system"], []).append(row)  # type: ignore[attr-defined]
    standings = [
        standing
        for (track, reading), systems in sorted(by_reading.items())
        for system, rows in sorted(systems.items())
        for standing in _standings(settings, system, track, reading, rows)
    ]
    if ratings is not None:
        standings += _rated(settings, ratings)
    for standing in standings:
        standing["outdated"] = standing["track"] != "human" and standing["system"] in outdated
        standing["gone"] = standing["outdated"] and standing["system"] in gone
    comparisons = [
        comparison
        for (track, reading), systems in sorted(by_reading.items())
        if reading in COMPARED
        for comparison in _comparisons(
            settings, track, reading, {s: rows for s, rows in systems.items() if s not in outdated}
        )
    ]
    return (
        pa.Table.from_pylist(standings, schema=STANDINGS),
        pa.Table.from_pylist(comparisons, schema=COMPARISONS),
    )


def outdated_because(standings: Rows) -> dict[str, str]:
    """The systems whose figures are of something else than is there now, and why."""
    return {
        row["system"]: "its prediction file is gone"
        if row["gone"]
        else "its predictions, the corpus or the options have changed since it was evaluated"
        for row in standings
        if row["outdated"]
    }


@cache
def published() -> dict[str, dict[str, float]]:
    """Published figures by system, as far as they are known."""
    text = files("gavel.dialogue").joinpath("published.yaml").read_text(encoding="utf-8")
    found: dict[str, dict[str, float]] = yaml.safe_load(text)
    for figures in found.values():
        figures["combined"] = round(
            (figures["inform"] + figures["success"]) / 2 + figures["bleu"], 2
        )
    return found


def _standings(
    settings: Dialogue, system: str, track: str, reading: str, rows: Rows
) -> list[dict[str, Any]]:
    known = published().get(system.lower(), {}) if reading == REFERENCE else {}
    found = []
    for figure in FIGURES:
        if figure.track != track:
            continue
        estimated = estimate(figure, rows, Resampling.of(settings))
        if estimated.value is None and estimated.n == 0 and figure.name in _OPTIONAL:
            continue
        found.append(
            {
                "system": system,
                "track": track,
                "reading": reading,
                "scale": figure.scale,
                **vars(estimated),
                "published": known.get(figure.name),
                "signature": f"{rows[0]['signature']}|resamples:{settings.resamples}"
                f"|confidence:{settings.confidence:g}|seed:{settings.seed}",
            }
        )
    return found


_OPTIONAL = ("bleu_text", "entity_consistency")


def _comparisons(
    settings: Dialogue, track: str, reading: str, systems: Mapping[str, Rows]
) -> list[dict[str, Any]]:
    """Every pair of systems by every figure; p-values are corrected over the pairs of a figure."""
    by_id = {
        system: {str(row["dialogue_id"]): row for row in rows} for system, rows in systems.items()
    }
    found = []
    named = list(combinations(sorted(by_id), 2))
    resampling = Resampling.of(settings).for_pairs(len(named))
    for figure in FIGURES:
        if figure.track != track:
            continue
        pairs = []
        for one, other in named:
            compared = compare(figure, by_id[one], by_id[other], resampling)
            if compared is not None:
                pairs.append({"first": one, "second": other, **vars(compared)})
        corrected = holm([pair["p"] for pair in pairs])
        found += [
            {"track": track, "reading": reading, **pair, "p_holm": p}
            for pair, p in zip(pairs, corrected, strict=True)
        ]
    return found


def _rated(settings: Dialogue, ratings: Ratings) -> list[dict[str, Any]]:
    return [
        {
            "system": system,
            "track": "human",
            "reading": "people",
            "scale": scale,
            **vars(made(items, Resampling.of(settings))),
            "published": None,
            "signature": f"human|v:1|ratings:{ratings.fingerprint}|raters:"
            f"{max(map(len, items.values()))}|resamples:{settings.resamples}|seed:{settings.seed}",
        }
        for system, items in sorted(ratings.systems.items())
        for made, scale in ((rate, "1-5"), (agreement, "-1-1"))
    ]
