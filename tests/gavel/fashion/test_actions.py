"""Reading replies: what can be used, what cannot, and the name of every failure."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gavel.fashion.actions import FAILURES, read_action, read_line, read_query


def answer(text: str | None, **changes: Any) -> dict[str, Any]:
    row = {"text": text, "finish_reason": "stop", "refusal": None, "failure": None, "detail": None}
    return row | changes


def search(*queries: Any, message: str = "") -> str:
    return json.dumps({"action": "search", "message": message, "queries": list(queries)})


def message(text: Any) -> str:
    return json.dumps({"action": "message", "message": text, "queries": []})


@pytest.mark.parametrize(
    ("text", "kind", "said", "queries", "notes"),
    [
        (search("black shoes"), "search", "", ["black shoes"], []),
        (search(" black \n shoes ", "x"), "search", "", ["black shoes", "x"], []),
        (search("black shoes", "", "  "), "search", "", ["black shoes"], ["empty_query"]),
        (search("shoes", message="Look:"), "search", "Look:", ["shoes"], []),
        (message("Which size?"), "message", "Which size?", [], []),
        (f"ASSISTANT: {message('Hi')}", "message", "Hi", [], ["prefix"]),
        (message("Assistant: Hi"), "message", "Hi", [], ["prefix"]),
        (message("**Assistant**: Hi"), "message", "Hi", [], ["prefix"]),
        (
            message("see https://shop.example/x"),
            "message",
            "see https://shop.example/x",
            [],
            ["url"],
        ),
        (f"```json\n{search('a')}\n```", "search", "", ["a"], []),
        ('{"action": "search", "queries": ["a"],}', "search", "", ["a"], []),
        (search("ASSISTANT: black shoes"), "search", "", ["black shoes"], ["prefix"]),
        (search("shoes", "\u200b", "!!!", "."), "search", "", ["shoes"], ["empty_query"]),
        (search(*"abcdefghij"), "search", "", list("abcdefghij"), []),
        (search("size: M"), "search", "", ["size: M"], []),
        (search("C&A 42"), "search", "", ["C&A 42"], []),
        ('{"action": "message", "message": "Hi", "queries": [""]}', "message", "Hi", [], []),
        ('{"action": "message", "message": "Hi", "queries": null}', "message", "Hi", [], []),
        (message("AI: Hi"), "message", "Hi", [], ["prefix"]),
        (message("Shop assistant: Hi"), "message", "Hi", [], ["prefix"]),
        (message("Vendeur : Hi"), "message", "Hi", [], ["prefix"]),
        (message("VERKÄUFER: Hi"), "message", "Hi", [], ["prefix"]),
        (message("ΠΩΛΗΤΗΣ: Hi"), "message", "Hi", [], ["prefix"]),
        # What stands before these colons is no speaker.
        (message("Your options: black"), "message", "Your options: black", [], []),
        (message("Customer service: no"), "message", "Customer service: no", [], []),
        (message("Farbe: rot"), "message", "Farbe: rot", [], []),
        (message("half a \ud800 pair"), "message", "half a ? pair", [], []),
    ],
)
def test_actions_that_can_be_used(
    text: str, kind: str, said: str, queries: list[str], notes: list[str]
) -> None:
    found = read_action(answer(text))
    assert (found.kind, found.text, found.queries) == (kind, said, queries)
    assert (found.faults, found.notes) == ([], notes)


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (answer("Sure, here are some shoes."), "malformed_action"),
        (answer("ASSISTANT: here are some shoes"), "malformed_action"),
        (answer('{"action": "buy"}'), "malformed_action"),
        (answer('{"action": "search", "queries": "shoes"}'), "malformed_action"),
        (answer(search(7)), "malformed_action"),
        (answer(search(*"abcdefghijk")), "malformed_action"),
        (answer(search(*["shoes"] * 5_000)), "malformed_action"),
        (answer(message(7)), "malformed_action"),
        (answer('{"message": "hi"}'), "malformed_action"),
        (answer(search()), "no_query"),
        (answer(search("", " \t")), "no_query"),
        (answer(search("\u200b", "!!!", ".")), "no_query"),
        (answer(search("Customer: black shoes")), "role_switch"),
        (answer('{"action": "message", "queries": ["black shoes"]}'), "malformed_action"),
        (
            answer('{"action": "message", "message": "Hi", "queries": ["black shoes"]}'),
            "malformed_action",
        ),
        (answer('{"action": "message", "message": "Hi", "queries": "shoes"}'), "malformed_action"),
        (answer(message("ΠΕΛΑΤΗΣ: παπούτσια")), "role_switch"),
        (answer(message("Πελάτισσα: παπούτσια")), "role_switch"),
        (answer(message("Kundin: Schuhe")), "role_switch"),
        (answer(message("Cliente : chaussures")), "role_switch"),
        (answer('{"action": "search"}'), "no_query"),
        (answer(message("  ")), "empty_message"),
        (answer(message("Hi\nCustomer: I want shoes")), "role_switch"),
        (answer("Customer: I want shoes"), "role_switch"),
        (answer(f"{message('Hi')}\nUSER: thanks"), "role_switch"),
        (answer("  "), "empty_response"),
        (answer(None), "empty_response"),
        (answer("I'm sorry, I cannot help with that."), "refused"),
        (answer("", refusal="no"), "refused"),
        (answer('{"action"', finish_reason="length"), "truncated"),
        (answer(None, failure="timeout", detail="60 s"), "timeout"),
        (answer(None, failure="transport", detail="http_500"), "transport"),
        (answer(None, failure="context_overflow", detail="too long"), "context_overflow"),
    ],
)
def test_actions_that_cannot_be_used_have_a_named_failure(reply: dict[str, Any], code: str) -> None:
    found = read_action(reply)
    assert [fault.code for fault in found.faults] == [code]
    assert code in FAILURES


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"message": "black shoes", "end": "no"}', ("black shoes", "no", [])),
        ('{"message": "thanks", "end": "success"}', ("thanks", "success", [])),
        ('{"message": "", "end": "no_progress"}', ("", "no_progress", [])),
        ('{"message": "", "end": "no"}', ("", "no", ["empty_message"])),
        ('{"message": "hi", "end": "maybe"}', ("", "no", ["malformed_action"])),
        ('{"message": "hi"}', ("", "no", ["malformed_action"])),
        (
            '{"message": "[ITEMS] 1. shoes", "end": "no"}',
            ("[ITEMS] 1. shoes", "no", ["role_switch"]),
        ),
        ('{"message": "Assistant: hi", "end": "no"}', ("Assistant: hi", "no", ["role_switch"])),
        ('{"message": "AI: hi", "end": "no"}', ("AI: hi", "no", ["role_switch"])),
        ('{"message": "Vendeur : salut", "end": "no"}', ("Vendeur : salut", "no", ["role_switch"])),
        ("black shoes please", ("", "no", ["malformed_action"])),
    ],
)
def test_lines_of_customers(text: str, expected: tuple[str, str, list[str]]) -> None:
    line = read_line(answer(text))
    assert (line.text, line.end, [fault.code for fault in line.faults]) == expected


@pytest.mark.parametrize(
    ("text", "queries", "faults"),
    [
        ('{"query": "black shoes"}', ["black shoes"], []),
        ('{"query": ""}', [], ["no_query"]),
        ('{"query": "   "}', [], ["no_query"]),
        ('{"query": null}', [], ["no_query"]),
        ('{"query": "\u200b"}', [], ["no_query"]),
        ('{"query": "!!!"}', [], ["no_query"]),
        ('{"query": 7}', [], ["malformed_action"]),
        ('{"query": ["black", "shoes"]}', [], ["malformed_action"]),
        ("black shoes", [], ["malformed_action"]),
    ],
)
def test_queries_for_a_whole_conversation(text: str, queries: list[str], faults: list[str]) -> None:
    found = read_query(answer(text))
    assert found.queries == queries
    assert [fault.code for fault in found.faults] == faults


def test_a_very_long_query_is_kept_up_to_a_bound() -> None:
    found = read_query(answer(json.dumps({"query": "shoe " * 100_000})))
    assert found.faults == []
    assert len(found.queries[0]) == 100_000
