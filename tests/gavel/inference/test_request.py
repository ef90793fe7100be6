"""A request is named by what determines its answer, and by nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from gavel.inference.request import Decoding, Message, Question, Request

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
BASE: dict[str, Any] = {
    "model": "m",
    "temperature": 0.5,
    "max_tokens": 10,
    "seed": 7,
    "extra": (("top_p", 0.9),),
    "system": "Judge.",
    "schema": SCHEMA,
    "schema_name": "answer",
    "messages": (("user", "one"), ("assistant", "two")),
    "attempt": 1,
    "subject": None,
}


def request(**changes: Any) -> Request:
    given = {**BASE, **changes}
    decoding = Decoding(given["temperature"], given["max_tokens"], given["seed"], given["extra"])
    question = Question(
        given["model"], decoding, given["system"], given["schema"], given["schema_name"]
    )
    messages = tuple(Message(role, content) for role, content in given["messages"])
    return question.request(messages, given["attempt"], given["subject"])


@pytest.mark.parametrize(
    "change",
    [
        {"model": "m2"},
        {"temperature": 0.6},
        {"max_tokens": 11},
        {"seed": 8},
        {"seed": None},
        {"extra": ()},
        {"extra": (("top_p", 0.8),)},
        {"system": "Judge!"},
        {"system": ""},
        {"schema": None},
        {"schema": {**SCHEMA, "additionalProperties": False}},
        {"messages": (("user", "one"),)},
        {"messages": (("user", "one"), ("user", "two"))},
        {"messages": (("assistant", "two"), ("user", "one"))},
        {"messages": (("user", "onetwo"), ("assistant", ""))},
        {"messages": (("user", "one\x1eassistant\x1f"), ("assistant", "two"))},
        {"messages": (("user", "One"), ("assistant", "two"))},
        {"messages": (("user", "one "), ("assistant", "two"))},
        {"messages": (("user", "\ud800"), ("assistant", "two"))},
    ],
    ids=str,
)
def test_whatever_determines_the_answer_changes_the_hash(change: dict[str, Any]) -> None:
    assert request(**change).request_hash != request().request_hash


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"subject": "what a rule reads"},
        {"attempt": 2},
        {"schema": {"properties": {"a": {"type": "integer"}}, "type": "object"}},
    ],
    ids=str,
)
def test_nothing_else_changes_the_hash(change: dict[str, Any]) -> None:
    assert request(**change).request_hash == request().request_hash


def test_the_attempt_is_a_part_of_the_key_but_not_of_the_hash() -> None:
    first, second = request(), request(attempt=2)
    assert first.key == (first.request_hash, 1)
    assert second.key == (first.request_hash, 2)


def test_the_hash_is_the_same_in_every_process() -> None:
    """Written down, since every ledger depends on it: a new value here means that all is asked anew."""
    assert request().request_hash == "64a5bf18ecbfaf7df4f0a2ad26de16a9"


def test_requests_of_one_question_do_not_affect_one_another() -> None:
    question = Question("m", Decoding(0.0, 1), "s")
    one = question.request((Message("user", "1"),), 1).request_hash
    two = question.request((Message("user", "2"),), 1).request_hash
    assert one != two
    assert question.request((Message("user", "1"),), 1).request_hash == one
