"""The page of the fashion benchmark: standings, quality against cost, attributes, failures, the data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import ceil, floor, log10
from typing import Any

import pyarrow.parquet as pq

from gavel.fashion.actions import FAILURES
from gavel.fashion.dataset import statistics
from gavel.fashion.evaluate import MODES
from gavel.fashion.leaderboard import (
    BY_SIMILARITY,
    FIGURES,
    baselines_out_of_order,
    outdated_systems,
    published,
    ranking,
)
from gavel.fashion.prompts import LANGUAGES
from gavel.fashion.verify import GROUNDS
from gavel.fashion.vocabulary import ATTRIBUTES, Vocabulary
from gavel.report.dialogue import axis, per_cent
from gavel.report.page import environment
from gavel.settings.fashion import FASHION_LANGUAGES, Fashion
from gavel.store.files import Store

TITLES = {
    "bertscore": "BERTScore F1",
    "similarity": "Similarity",
    "attribute_exact": "Attributes, exact",
    "attribute_equivalent": "Attributes, equivalent",
    "theme_first": "Nearest theme right",
    "theme_third": "Theme, precision@3",
    "no_query": "No query",
}
_STATISTICS = {
    ("conversations", ""): "Conversations",
    ("message_pairs", ""): "Message pairs",
    ("messages", "customer"): "Messages of customers",
    ("messages", "assistant"): "Messages of assistants with text",
    ("tokens_per_message", "customer"): "Tokens a customer's message",
    ("tokens_per_message", "assistant"): "Tokens an assistant's message with text",
    ("messages_per_conversation", ""): "Messages a conversation, a search counting once",
    ("search_share", ""): "Share of searches among the assistant's actions",
    ("all_info", ""): "Share of item conversations in which the customer tells everything",
}
_FREE, _PAID = 9.0, 30.0
"""Where what costs nothing stands on the axis of cost, and where its logarithmic scale begins, in per cent."""

_LINE, _NAME = 9.0, 25.0
"""Height and width of a name in the picture, in per cent."""

Rows = Sequence[Mapping[str, Any]]


def render_fashion(
    suite: str, settings: Fashion, standings: Rows, store: Store, vocabulary: Vocabulary
) -> str:
    """The HTML page of the standings, with what the store holds of the data set."""
    figure = ranking(standings)
    modes = [_mode(mode, title, standings, figure) for mode, title in MODES.items()]
    return (
        environment()
        .get_template("fashion.html.j2")
        .render(
            suite=suite,
            figure=TITLES[figure],
            ranked_by=figure,
            reason=next((r["reason"] for r in standings if r["figure"] == "bertscore"), None)
            if figure != "bertscore"
            else None,
            outdated=outdated_systems(standings),
            by_similarity=BY_SIMILARITY,
            odd=baselines_out_of_order(standings),
            scripted=settings.assistant == "scripted",
            modes=[mode for mode in modes if mode["panels"]],
            meanings=FIGURES,
            attributes=ATTRIBUTES,
            failures=FAILURES,
            published=_published(),
            languages=LANGUAGES,
            statistics=_statistics(settings, store, vocabulary),
            removed=_removed(settings, store),
            grounds=GROUNDS,
        )
    )


def _mode(mode: str, title: str, standings: Rows, figure: str) -> dict[str, Any]:
    own = [row for row in standings if row["mode"] == mode]
    values = {(row["language"], row["system"], row["figure"], row["key"]): row for row in own}
    present = list(dict.fromkeys((row["language"], row["system"]) for row in own))
    best = sorted(
        present,
        key=lambda pair: (
            FASHION_LANGUAGES.index(pair[0]),
            -(values[(*pair, figure, "")]["value"] or float("-inf")),
        ),
    )
    shown = [
        name for name in TITLES if any(r["figure"] == name and r["value"] is not None for r in own)
    ]
    return {
        "title": title,
        "panels": list(_panels(own, figure)),
        "pictures": list(_pictures(own, figure)),
        "titles": [TITLES[name] for name in shown],
        "table": [
            {
                "language": LANGUAGES[language],
                "system": system,
                "cells": [values[(language, system, name, "")] for name in shown],
                "cost": values[(language, system, "cost_usd", "")],
                "tokens": values[(language, system, "tokens", "")],
            }
            for language, system in best
        ],
        "attributes": [
            {
                "language": LANGUAGES[language],
                "system": system,
                "cells": [
                    (
                        values[(language, system, "attribute_exact", attribute)],
                        values[(language, system, "attribute_equivalent", attribute)],
                    )
                    for attribute in ATTRIBUTES
                ],
            }
            for language, system in best
        ],
        "failed": [row for row in own if row["figure"] == "failed"],
        "signatures": [
            {"system": system, "language": language, "signature": values[key]["signature"]}
            for language, system in present
            for key in [(language, system, figure, "")]
        ],
    }


def _panels(rows: Rows, figure: str) -> Iterator[dict[str, Any]]:
    """One language each: its systems, best first, with places in per cent of one axis for all languages."""
    shown = [
        row
        for row in rows
        if row["figure"] == figure and row["key"] == "" and row["value"] is not None
    ]
    ends = [row[end] for row in shown for end in ("low", "high", "value") if row[end] is not None]
    ends += [row["published"] for row in shown if row["published"] is not None]
    if not ends:
        return
    low, high = axis(min(ends), max(ends), 100)
    place = partial(per_cent, low=low, high=high)
    for language in FASHION_LANGUAGES:
        own = [row for row in shown if row["language"] == language]
        if own:
            yield {
                "title": LANGUAGES[language],
                "low": low,
                "high": high,
                "rows": [
                    {
                        **row,
                        "x": place(row["value"]),
                        "from": place(row["low"]),
                        "to": place(row["high"]),
                        "differs": False,
                        "published_x": place(row["published"]),
                    }
                    for row in sorted(own, key=lambda row: -row["value"])
                ],
            }


def _pictures(rows: Rows, figure: str) -> Iterator[dict[str, Any]]:
    """Quality against cost, a language each: the cost of the whole run on a logarithmic scale, free beside it."""
    costs = {
        (row["language"], row["system"]): row["value"]
        for row in rows
        if row["figure"] == "cost_usd"
    }
    paid = [cost for cost in costs.values() if cost]
    low, high = (floor(log10(min(paid))), ceil(log10(max(paid)) + 1e-9)) if paid else (0, 1)
    for panel in _panels(rows, figure):
        points: list[dict[str, Any]] = []
        for row in panel["rows"]:
            cost = costs.get((row["language"], row["system"]))
            if cost is None:
                continue
            x = _FREE
            if cost > 0:
                x = _PAID + (100 - _PAID) * (log10(cost) - low) / max(high - low, 1)
            y = round(100 - row["x"], 2)
            # Best first, so a name goes below those of like cost that it would stand on.
            near = [p["label"] + _LINE for p in points if abs(p["x"] - x) < _NAME]
            points.append(
                {
                    **{key: row[key] for key in ("system", "value")},
                    "cost": cost,
                    "x": round(x, 2),
                    "y": y,
                    "label": max([y, *near]),
                    "from": _below(row["from"]),
                    "to": _below(row["to"]),
                }
            )
        yield {
            "title": panel["title"],
            "low": panel["low"],
            "high": panel["high"],
            "points": points,
            "cheapest": 10.0**low if paid else None,
            "dearest": 10.0**high if paid else None,
            "free": _FREE,
            "paid": _PAID,
        }


def _below(x: float | None) -> float | None:
    return None if x is None else round(100 - x, 2)


def _published() -> list[dict[str, Any]]:
    """The published figures, a system and mode a row, language by language."""
    found: dict[tuple[str, str], list[float]] = {}
    for (mode, system, _), value in published().items():
        found.setdefault((mode, system), []).append(value)
    return [
        {"mode": MODES[mode].split(":")[0], "system": system, "values": values}
        for (mode, system), values in found.items()
    ]


def _statistics(settings: Fashion, store: Store, vocabulary: Vocabulary) -> dict[str, Any]:
    """What is counted of the evaluated split, language by language: of the conversations that are there now."""
    tables = {}
    for language in settings.languages:
        path = store.table("fashion/conversations", language)
        if path.exists():
            tables[language] = {
                (row["figure"], row["key"]): row["value"]
                for row in statistics(pq.read_table(path).to_pylist(), vocabulary)
                if row["split"] == settings.split
            }
    rows = [
        (title, [tables[lang].get(key) for lang in tables]) for key, title in _STATISTICS.items()
    ]
    return {"languages": [LANGUAGES[language] for language in tables], "rows": rows}


def _removed(settings: Fashion, store: Store) -> list[tuple[str, str, int]]:
    """Language, ground and number of the conversations that were removed; each counts under every ground."""
    found: list[tuple[str, str, int]] = []
    for language in settings.languages:
        path = store.table("fashion/removed", language)
        if path.exists():
            rows = pq.read_table(path).to_pylist()
            counts = Counter(ground for row in rows for ground in set(row["grounds"]))
            found += [(LANGUAGES[language], g, counts[g]) for g in GROUNDS if counts[g]]
    return found
