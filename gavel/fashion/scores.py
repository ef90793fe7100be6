"""How good the queries of a conversation are: BERTScore and similarity to the goal, its attributes, its theme.

A search of several queries counts by their mean, or by the best of them (`fashion.queries`); a conversation of
several searches by their mean. A conversation without a query has no BERTScore, similarity or theme: they
are null, and `no_query` counts it. Its attributes were not found, which is a fact and not undefined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandera.polars as pandera
import polars as pl
import pyarrow as pa

from gavel.fashion.actions import FAILURES
from gavel.fashion.evaluate import MODES
from gavel.fashion.goals import parse_properties
from gavel.fashion.vocabulary import Vocabulary
from gavel.inference.embeddings import Vector
from gavel.text.words import holds

_ATTRIBUTE = pa.struct(
    [
        *((name, pa.string()) for name in ("attribute", "value")),
        *((name, pa.bool_()) for name in ("exact", "equivalent")),
    ]
)
RESULTS = pa.schema(
    [
        *((name, pa.string()) for name in ("system", "language", "mode", "id", "goal_kind")),
        *((name, pa.string()) for name in ("goal", "properties", "theme", "customer_name")),
        ("searches", pa.list_(pa.list_(pa.string()))),
        ("outcome", pa.string()),
        ("turns", pa.int32()),
        ("failures", pa.list_(pa.string())),
        *((name, pa.int64()) for name in ("requests", "prompt_tokens", "completion_tokens")),
        *((name, pa.float64()) for name in ("seconds", "cost_usd")),
        *((name, pa.float64()) for name in ("bertscore", "similarity")),
        ("attributes", pa.list_(_ATTRIBUTE)),
        *((name, pa.float64()) for name in ("theme_first", "theme_third")),
        ("undefined", pa.string()),
        ("signature", pa.string()),
    ]
)
"""One row a conversation and mode. Scores are on 0 to 1, null where `undefined` says why."""

VOLATILE = ("seconds", "cost_usd")
"""Columns that differ when the same is run again: a machine's time, and what it costs."""

RESULTS_VALID = pandera.DataFrameSchema(
    {
        "mode": pandera.Column(pl.String, pandera.Check.isin(list(MODES))),
        # Both are cosines, or means of them, and rescaled ones may be negative; floats may exceed 1 a little.
        **{
            name: pandera.Column(pl.Float64, pandera.Check.le(1.0001), nullable=True)
            for name in ("bertscore", "similarity")
        },
        **{
            name: pandera.Column(pl.Float64, pandera.Check.in_range(0, 1), nullable=True)
            for name in ("theme_first", "theme_third")
        },
        "failures": pandera.Column(
            pl.List(pl.String),
            pandera.Check(
                lambda data: data.lazyframe.select(
                    pl.col(data.key).list.eval(pl.element().is_in(list(FAILURES))).list.all()
                )
            ),
        ),
    }
)
"""What every row of results satisfies."""

THEMES_SHOWN = 3
"""Among how many nearest themes the right one counts for `theme_third`."""

PairScores = Callable[[Sequence[str], Sequence[str]], Sequence[float | None]]
"""Scores of queries, each against the goal beside it."""


def combined(
    searches: Sequence[Sequence[str]], score: Callable[[str], float | None], queries: str
) -> float | None:
    """One number for the searches of a conversation: of each its mean (or best) query, then their mean.

    Queries whose score is undefined are left out; None where nothing is left.
    """
    found = []
    for search in searches:
        values = [value for query in search if (value := score(query)) is not None]
        if values:
            found.append(max(values) if queries == "best" else sum(values) / len(values))
    # Sums of floats differ in their last digits with the company a text is embedded in; equal runs must not.
    return round(sum(found) / len(found), 5) if found else None


def attributes_found(
    searches: Sequence[Sequence[str]], properties: Mapping[str, str], vocabulary: Vocabulary
) -> list[dict[str, Any]]:
    """Whether each value of the goal stands in any of the queries, as a whole word: exactly, or an equivalent."""
    text = " . ".join(query for search in searches for query in search)
    return [
        {
            "attribute": attribute,
            "value": value,
            "exact": holds(text, [value]),
            "equivalent": holds(text, vocabulary.equivalents(value)),
        }
        for attribute, value in properties.items()
    ]


def _place(nearness: Vector, right: int) -> int:
    """How many are nearer than the right one."""
    return int((nearness > nearness[right]).sum())


def add_scores(
    rows: Sequence[dict[str, Any]],
    vocabulary: Vocabulary,
    queries: str,
    bertscore: PairScores | None,
    vectors: Mapping[str, Vector],
    why_no_bertscore: str,
) -> None:
    """Add the scores to the rows of a system, in place.

    `vectors` are the embeddings of the queries, the goals of items and the descriptions of themes.
    """
    items = [row for row in rows if row["goal_kind"] == "item"]
    pairs = list(
        dict.fromkeys(
            (q, row["goal"]) for row in items for search in row["searches"] for q in search
        )
    )
    f1: dict[tuple[str, str], float | None] = {}
    if bertscore is not None and pairs:
        scored = bertscore([query for query, _ in pairs], [goal for _, goal in pairs])
        f1 = dict(zip(pairs, scored, strict=True))
    names = list(vocabulary.themes)
    themes = np.stack([vectors[vocabulary.themes[name].description] for name in names])
    for row in rows:
        searches, goal = row["searches"], row["goal"]
        row |= dict.fromkeys(("bertscore", "similarity", "theme_first", "theme_third"))
        if row["outcome"] == "customer_broke" and not searches:
            # The system had no chance to search: that says nothing of it.
            row |= {"attributes": [], "undefined": "the customer broke it"}
            continue
        row["attributes"] = attributes_found(
            searches, parse_properties(row["properties"], vocabulary), vocabulary
        )
        if row["goal_kind"] == "item":
            row["bertscore"] = combined(searches, lambda q, g=goal: f1.get((q, g)), queries)  # type: ignore[misc]
            row["similarity"] = combined(
                searches,
                lambda q, g=goal: float(vectors[q] @ vectors[g]) if q in vectors else None,  # type: ignore[misc]
                queries,
            )
            reason = why_no_bertscore if bertscore is None else ""
        else:
            # The place of the right theme among the nearest: 0 for the first.
            places = {
                q: _place(themes @ vectors[q], names.index(goal))
                for search in searches
                for q in search
            }
            row["theme_first"] = combined(searches, lambda q, p=places: float(p[q] < 1), "mean")  # type: ignore[misc]
            row["theme_third"] = combined(
                searches,
                lambda q, p=places: float(p[q] < THEMES_SHOWN),  # type: ignore[misc]
                "mean",
            )
            reason = ""
        row["undefined"] = "no query" if not searches else reason or None
