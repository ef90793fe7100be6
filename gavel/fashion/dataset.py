"""The data set: one row a message pair, and what is counted of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandera.polars as pandera
import polars as pl
import pyarrow as pa

from gavel.fashion.conversation import OUTCOMES, Conversation, Turn, plain_turns
from gavel.fashion.goals import SPLITS, goal_of, parse_properties
from gavel.fashion.vocabulary import ATTRIBUTES, Vocabulary
from gavel.text.words import count_words, holds

ACTIONS = ("message", "search")

_GOAL = [
    *((name, pa.string()) for name in ("goal", "properties")),
    ("all_info", pa.bool_()),
]
_PAIR = [
    *((name, pa.string()) for name in ("customer", "assistant")),
    ("queries", pa.list_(pa.string())),
    ("action", pa.string()),
]
_WHOLE = [
    ("turn", pa.int32()),
    ("items", pa.string()),
    *((name, pa.string()) for name in ("split", "goal_kind", "theme", "customer_name")),
    *((name, pa.string()) for name in ("customer_kind", "personality", "outcome")),
]
SIMULATED = pa.schema(
    [
        ("id", pa.string()),
        *_GOAL,
        *_PAIR,
        *_WHOLE,
        ("failures", pa.list_(pa.string())),
        ("fault_detail", pa.string()),
    ]
)
"""One row a message pair, as it was simulated; what is said of the whole conversation is on each of its rows."""

DATASET = pa.schema([("id", pa.string()), ("language", pa.string()), *_GOAL, *_PAIR, *_WHOLE])
"""One row a message pair of the conversations that were kept, in one language. Queries are English in all."""

DATASET_VALID = pandera.DataFrameSchema(
    {
        "id": pandera.Column(pl.String),
        "customer": pandera.Column(pl.String, pandera.Check.str_length(min_value=1)),
        "action": pandera.Column(pl.String, pandera.Check.isin(ACTIONS), nullable=True),
        "split": pandera.Column(pl.String, pandera.Check.isin(SPLITS)),
        "outcome": pandera.Column(pl.String, pandera.Check.isin(list(OUTCOMES))),
    }
)
"""What every row of the data set satisfies; `action` is null where the customer has the last word."""

STATISTICS = pa.schema(
    [
        *((name, pa.string()) for name in ("language", "split", "figure", "key")),
        ("value", pa.float64()),
        ("n", pa.int64()),
        ("note", pa.string()),
    ]
)
"""One row a figure; `n` is its denominator, `note` says what that counts."""


def rows_of(conversation: Conversation) -> list[dict[str, Any]]:
    """A conversation as rows of SIMULATED. One that broke before the first message has one row, without one."""
    goal = conversation.goal
    row = goal.row()
    whole = {
        "id": goal.id,
        "goal": goal.text,
        "properties": row["properties"],
        "all_info": conversation.all_info,
        "split": goal.split,
        "goal_kind": goal.kind,
        "theme": goal.theme,
        "customer_name": goal.customer,
        "customer_kind": goal.customer_kind,
        "personality": goal.personality,
        "outcome": conversation.outcome,
        "failures": sorted((conversation.failures + conversation.customer_failures).elements()),
        "fault_detail": "\n".join(
            f"{f.code}: {' '.join(f.detail.split())}" for f in conversation.faults
        )
        or None,
    }
    turns = plain_turns(conversation) or [{"customer": None, "queries": []}]
    return [{**whole, "turn": number, **turn} for number, turn in enumerate(turns, 1)]


def tells_all(conversation: Conversation) -> bool:
    """Whether the customer has named every property of the goal, as it says it; never so of a theme.

    Queries for the whole conversation are asked for only where this holds.
    """
    goal = conversation.goal
    said = " . ".join(turn.customer for turn in conversation.turns)
    return bool(goal.properties) and all(holds(said, [v]) for v in goal.properties.values())


def conversations_of(
    rows: Iterable[Mapping[str, Any]], vocabulary: Vocabulary, language: str = "en"
) -> list[Conversation]:
    """The conversations in rows of SIMULATED or DATASET, in their order."""
    found: dict[str, Conversation] = {}
    for row in rows:
        conversation = found.get(row["id"])
        if conversation is None:
            goal = goal_of({**row, "customer": row["customer_name"]}, vocabulary)
            conversation = Conversation(
                goal, language, outcome=row["outcome"], all_info=row["all_info"]
            )
            found[row["id"]] = conversation
        if row["customer"] is not None:
            conversation.turns.append(
                Turn(
                    row["customer"],
                    row["action"],
                    row["assistant"] or "",
                    list(row["queries"]),
                    row["items"] or "",
                )
            )
    return list(found.values())


def statistics(rows: Sequence[Mapping[str, Any]], vocabulary: Vocabulary) -> list[dict[str, Any]]:
    """What is counted of the rows of DATASET of one language, by split.

    Tokens are runs of letters and digits, and single other signs. The mean length of the assistant's messages is
    over those that have text: a search shows items and needs none.
    """
    found: list[dict[str, Any]] = []
    by_split: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        by_split[row["split"]].append(row)
    for split in SPLITS:
        own = by_split.get(split)
        if own:
            found += [
                {"language": own[0]["language"], "split": split, **figure}
                for figure in _figures(own, vocabulary)
            ]
    return found


def _figures(rows: Sequence[Mapping[str, Any]], vocabulary: Vocabulary) -> Iterable[dict[str, Any]]:
    def figure(
        name: str, key: str, value: float, n: int | None = None, note: str | None = None
    ) -> dict[str, Any]:
        counted = int(value) if n is None else n
        return {"figure": name, "key": key, "value": value, "n": counted, "note": note}

    def mean(name: str, key: str, total: int, n: int, note: str) -> dict[str, Any]:
        return {"figure": name, "key": key, "value": total / n if n else None, "n": n, "note": note}

    goals = {row["id"]: row for row in rows}
    written = {
        "customer": [row["customer"] for row in rows],
        "assistant": [row["assistant"] for row in rows if row["assistant"]],
    }
    searches = sum(row["action"] == "search" for row in rows)
    actions = sum(row["action"] is not None for row in rows)
    yield figure("conversations", "", len(goals))
    yield figure("message_pairs", "", len(rows))
    for role, texts in written.items():
        tokens = sum(map(count_words, texts))
        what = "messages of the customer" if role == "customer" else "messages with text"
        yield figure("messages", role, len(texts))
        yield figure("tokens", role, tokens)
        yield mean("tokens_per_message", role, tokens, len(texts), what)
    both = sum(map(len, written.values()))
    yield mean(
        "messages_per_conversation",
        "",
        both + searches,
        len(goals),
        "conversations; a search counts once",
    )
    yield mean("search_share", "", searches, actions, "actions of the assistant")
    yield figure("queries", "", sum(len(row["queries"]) for row in rows))
    complete = sum(bool(row["all_info"]) for row in goals.values())
    items = sum(row["goal_kind"] == "item" for row in goals.values())
    yield mean("all_info", "", complete, items, "conversations about an item")
    named = [parse_properties(row["properties"], vocabulary) for row in goals.values()]
    for attribute in ATTRIBUTES:
        for value in vocabulary.values[attribute]:
            count = sum(properties.get(attribute) == value for properties in named)
            yield figure("attribute", f"{attribute}: {value}", count)
    for theme in vocabulary.themes:
        yield figure("theme", theme, sum(row["theme"] == theme for row in goals.values()))
