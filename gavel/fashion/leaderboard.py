"""The leaderboard of the fashion benchmark: modes x languages x systems x figures, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any

import numpy as np
import pandera.polars as pandera
import polars as pl
import pyarrow as pa
import yaml
from numpy.typing import NDArray

from gavel.agreement.bootstrap import Resampling, estimate
from gavel.fashion.actions import FAILURES
from gavel.fashion.vocabulary import ATTRIBUTES
from gavel.settings.fashion import FASHION_LANGUAGES

QUALITY = ("bertscore", "similarity", "attribute_exact", "attribute_equivalent")
"""The figures of quality of item goals, the one that ranks first: the first that is defined."""

FIGURES = {
    "bertscore": "BERTScore F1 of query and goal, item goals",
    "similarity": "cosine of the embeddings of query and goal, item goals",
    "attribute_exact": "share of the goal's attributes that stand in a query as the goal writes them",
    "attribute_equivalent": "the same, an equal spelling counting too",
    "theme_first": "share of queries whose nearest theme is the right one, theme goals",
    "theme_third": "share of queries with the right theme among the three nearest (precision@3)",
    "no_query": "share of conversations without any query",
    "failed": "share of conversations with the failure in `key`",
    "requests": "requests to the system, all attempts, one shared by conversations once; no live customer's",
    "tokens": "tokens read and written by the system",
    "seconds": "time in which the system was at work on some request",
    "cost_usd": "cost of the whole run in US dollars",
}
"""Every figure of the leaderboard; shares, BERTScore and similarity are times 100."""

STANDINGS = pa.schema(
    [
        *((name, pa.string()) for name in ("mode", "language", "system", "figure", "key")),
        *((name, pa.float64()) for name in ("value", "low", "high")),
        ("n", pa.int64()),
        ("reason", pa.string()),
        ("published", pa.float64()),
        ("signature", pa.string()),
        ("outdated", pa.bool_()),
    ]
)
"""One row a mode, language, system and figure; `key` is the attribute or failure it is of, blank for the whole.

`outdated`: the conversations or the settings have changed since the system was evaluated.
"""

_FINITE = pandera.Check(lambda data: data.lazyframe.select(pl.col(data.key).is_finite()))
STANDINGS_VALID = pandera.DataFrameSchema(
    {
        "figure": pandera.Column(pl.String, pandera.Check.isin(list(FIGURES))),
        # An undefined figure is null; NaN would look like a number.
        **{
            name: pandera.Column(pl.Float64, _FINITE, nullable=True)
            for name in ("value", "low", "high")
        },
        "n": pandera.Column(pl.Int64, pandera.Check.ge(0)),
    }
)
"""What every row of the leaderboard satisfies."""

Rows = Sequence[Mapping[str, Any]]


@cache
def published() -> dict[tuple[str, str, str], float]:
    """Published BERTScore by mode, system and language: of other data."""
    text = files("gavel.fashion").joinpath("published.yaml").read_text(encoding="utf-8")
    return {
        (mode, system, language): value
        for mode, systems in yaml.safe_load(text).items()
        for system, values in systems.items()
        for language, value in zip(FASHION_LANGUAGES, values, strict=True)
    }


@cache
def _published_by_name() -> dict[tuple[str, str, str], float]:
    """The same by the system's name without case."""
    return {(mode, name.casefold(), lang): v for (mode, name, lang), v in published().items()}


def leaderboard(
    results: Rows, resampling: Resampling, outdated: Collection[tuple[str, str]] = ()
) -> pa.Table:
    """The standings of the rows of `gavel.fashion.scores.RESULTS` of any systems and languages.

    `outdated` are the language and system of results made from something else than there is now.
    """
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for row in results:
        groups.setdefault((row["mode"], row["language"], row["system"]), []).append(row)
    order = {language: place for place, language in enumerate(FASHION_LANGUAGES)}
    standings = [
        standing
        for key in sorted(groups, key=lambda k: (k[0], order[k[1]], k[2]))
        for standing in _standings(*key, groups[key], resampling, key[1:] in outdated)
    ]
    return pa.Table.from_pylist(standings, schema=STANDINGS)


def _standings(
    mode: str, language: str, system: str, rows: Rows, resampling: Resampling, outdated: bool
) -> list[dict[str, Any]]:
    own: dict[str, Any] = {"mode": mode, "language": language, "system": system}
    own["outdated"] = outdated
    own["signature"] = (
        f"{rows[0]['signature']}|resamples:{resampling.resamples}"
        f"|confidence:{resampling.confidence:g}|seed:{resampling.seed}"
    )
    known = _published_by_name().get((mode, system.casefold(), language))
    found = []
    columns = _columns(rows)
    sums = np.stack([column for _, _, column, _ in columns], axis=1).reshape(len(rows), -1)
    estimates = estimate(
        sums, _shares, [why for _, _, _, why in columns], resampling, len(rows), method="percentile"
    )
    for (figure, key, column, _), made in zip(columns, estimates, strict=True):
        counted = int((column[:, 1] > 0).sum())
        found.append(
            {
                **own,
                "figure": figure,
                "key": key,
                "value": made.value,
                "low": made.low,
                "high": made.high,
                "n": counted,
                "reason": made.reason,
                "published": known if figure == "bertscore" else None,
            }
        )
    for figure in ("requests", "tokens", "seconds", "cost_usd"):
        value = _total(rows, figure)
        unpriced = " or its `prices` are not set" if figure == "cost_usd" else ""
        why = None if value is not None else f"the server does not count tokens{unpriced}"
        found.append(
            {**own, "figure": figure, "key": "", "value": value, "n": len(rows), "reason": why}
        )
    return found


def _shares(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """100 x first / second of every pair of columns; NaN where nothing was counted."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(100 * sums[..., 0::2] / sums[..., 1::2])


def _columns(rows: Rows) -> list[tuple[str, str, NDArray[np.float64], str]]:
    """Each figure and key, what counts of how much in each conversation, and why it may be undefined."""

    def measured(name: str) -> NDArray[np.float64]:
        return np.array(
            [(0.0, 0.0) if row[name] is None else (row[name], 1.0) for row in rows]
        ).reshape(-1, 2)

    def found(variant: str, attribute: str | None) -> NDArray[np.float64]:
        own = [
            [a for a in row["attributes"] if attribute in (None, a["attribute"])] for row in rows
        ]
        return np.array([(float(sum(a[variant] for a in each)), float(len(each))) for each in own])

    def having(code: str) -> NDArray[np.float64]:
        return np.array([(float(code in row["failures"]), 1.0) for row in rows])

    # A try without a query may have been mended by the next: then there is one.
    without_query = np.array([(float(row["undefined"] == "no query"), 1.0) for row in rows])
    whys = {row["undefined"] for row in rows if row["goal_kind"] == "item" and row["undefined"]}
    no_items = "no conversation about an item"
    why = "; ".join(sorted(whys)) or no_items
    no_themes = "no conversation about a theme with a query"
    return [
        ("bertscore", "", measured("bertscore"), why),
        ("similarity", "", measured("similarity"), "no query" if whys else no_items),
        *(
            (f"attribute_{variant}", attribute or "", found(variant, attribute), no_items)
            for variant in ("exact", "equivalent")
            for attribute in (None, *ATTRIBUTES)
        ),
        ("theme_first", "", measured("theme_first"), no_themes),
        ("theme_third", "", measured("theme_third"), no_themes),
        ("no_query", "", without_query, ""),
        *(
            ("failed", code, column, "")
            for code in FAILURES
            if (column := having(code))[:, 0].any()
        ),
    ]


def _total(rows: Rows, figure: str) -> float | None:
    names = ("prompt_tokens", "completion_tokens") if figure == "tokens" else (figure,)
    values = [row[name] for row in rows for name in names]
    return None if any(value is None for value in values) else float(sum(values))


BY_SIMILARITY = (
    "An embedding model gives all short texts that have nothing to do with each other nearly the same cosine: "
    "where intervals overlap, it does not tell two systems apart."
)
"""What may be the reason where baselines are out of order by similarity."""

_BASELINES = ("yake", "popularity", "lorem")
"""Best first: what any data set worth using must tell apart."""


def baselines_out_of_order(standings: Rows) -> list[str]:
    """Where two of the baselines are not in their order by the ranking figure, a sentence each."""
    figure = ranking(standings)
    values = {
        (row["language"], row["system"]): row["value"]
        for row in standings
        if row["mode"] == "query" and row["figure"] == figure and row["key"] == ""
    }
    found = []
    for language in FASHION_LANGUAGES:
        for better, worse in pairwise(_BASELINES):
            one, other = values.get((language, better)), values.get((language, worse))
            if one is not None and other is not None and one <= other:
                found.append(
                    f"{language}: {better} ({one:.2f}) is not better than {worse} ({other:.2f}) by {figure}"
                )
    return found


def outdated_systems(standings: Rows) -> list[str]:
    """Which systems' figures are of something else than there is now, a sentence each."""
    found = dict.fromkeys((r["language"], r["system"]) for r in standings if r["outdated"])
    return [
        f"{language}: {system} is outdated: the conversations or the settings have changed since it was "
        "evaluated; do not compare it with the others before it is evaluated again"
        for language, system in found
    ]


def ranking(standings: Rows) -> str:
    """The figure that ranks: the first of QUALITY that is defined for any system."""
    defined = [
        figure
        for figure in QUALITY
        if any(row["figure"] == figure and row["value"] is not None for row in standings)
    ]
    return defined[0] if defined else QUALITY[0]
