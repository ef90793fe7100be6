"""The data set: rows and back; statistics worked out by hand, each with its denominator."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from gavel.fashion.dataset import (
    DATASET,
    SIMULATED,
    conversations_of,
    rows_of,
    statistics,
    tells_all,
)
from gavel.fashion.vocabulary import Vocabulary

from .conftest import goal, said, searched, talk, wrote

FIRST = talk(
    wrote("I need shoes", "Which size?"),
    searched("black, size M", "black shoes M", "black Nike shoes"),
    said("ok"),
)
SECOND = talk(
    searched("Nike shoes, black, M", "black Nike shoes M"),
    goal=goal(2, customer_kind="template", personality=None),
    outcome="one_exchange",
    all_info=True,
)
THIRD = talk(
    wrote("outfit for hiking", "Sure."), goal=goal(3, theme="hiking"), outcome="no_progress"
)


def test_rows_hold_a_conversation_whole(vocabulary: Vocabulary) -> None:
    rows = [row for c in (FIRST, SECOND, THIRD) for row in rows_of(c)]
    table = pa.Table.from_pylist(rows, SIMULATED)
    assert conversations_of(table.to_pylist(), vocabulary) == [FIRST, SECOND, THIRD]
    assert [row["properties"] for row in rows[3:]] == ["black, Nike, shoes, M", ""]
    assert set(DATASET.names) >= {
        *("id", "goal", "properties", "all_info", "customer", "assistant", "queries", "action"),
    }


def test_a_conversation_that_broke_at_once_keeps_its_row(vocabulary: Vocabulary) -> None:
    broken = talk(outcome="broken")
    (row,) = rows_of(broken)
    assert row["customer"] is None
    assert conversations_of([{**dict.fromkeys(SIMULATED.names), **row}], vocabulary) == [broken]


@pytest.mark.parametrize(
    ("conversation", "expected"),
    [
        (FIRST, False),  # the brand is never named by the customer
        (SECOND, True),
        (THIRD, False),
        (talk(wrote("black nike", "?"), said("Shoes. size m")), True),
        (talk(wrote("black nike shoes", "size M?"), said("yes")), False),
        (talk(wrote("black nike shoes medium", "?")), False),
    ],
)
def test_whether_the_customer_tells_everything(conversation: Any, expected: bool) -> None:
    assert tells_all(conversation) is expected


def test_statistics_by_hand(vocabulary: Vocabulary) -> None:
    rows = [{"language": "en", **row} for c in (FIRST, SECOND, THIRD) for row in rows_of(c)]
    found = {
        (row["figure"], row["key"]): (row["value"], row["n"])
        for row in statistics(rows, vocabulary)
    }
    assert found["conversations", ""] == (3, 3)
    assert found["message_pairs", ""] == (5, 5)
    assert found["messages", "customer"] == (5, 5)
    assert found["messages", "assistant"] == (2, 2)
    # I need shoes | black , size M | ok | Nike shoes , black , M | outfit for hiking
    assert found["tokens", "customer"] == (3 + 4 + 1 + 6 + 3, 17)
    # Which size ? | Sure .
    assert found["tokens", "assistant"] == (5, 5)
    assert found["tokens_per_message", "customer"] == (17 / 5, 5)
    # Over the two messages that have text, not over the four actions.
    assert found["tokens_per_message", "assistant"] == (2.5, 2)
    assert found["search_share", ""] == (2 / 4, 4)
    assert found["messages_per_conversation", ""] == ((7 + 2) / 3, 3)
    assert found["queries", ""] == (3, 3)
    assert found["all_info", ""] == (1 / 2, 2)
    assert found["attribute", "colour: black"] == (2, 2)
    assert found["attribute", "colour: red"] == (0, 0)
    assert found["theme", "hiking"] == (1, 1)


def test_splits_are_counted_apart_and_nothing_divides_by_zero(vocabulary: Vocabulary) -> None:
    assert statistics([], vocabulary) == []
    rows = [
        {"language": "en", **row}
        for row in rows_of(talk(said("hi"), goal=goal(split="development")))
    ]
    found = {(row["split"], row["figure"], row["key"]): row for row in statistics(rows, vocabulary)}
    assert {split for split, _, _ in found} == {"development"}
    assert found["development", "tokens_per_message", "assistant"]["value"] is None
    assert found["development", "search_share", ""]["value"] is None
