"""A request is named by what determines its answer, and by nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gavel.inference.request import Decoding, Message, Question, Request

A, B = {"a": {"type": "integer"}}, {"b": {"type": "integer"}}
SCHEMA = {"type": "object", "properties": A | B}
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
        {"schema": {**SCHEMA, "properties": B | A}},  # they are answered in this order
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
    code = "from tests.gavel.inference.test_request import request; print(request().request_hash)"
    command, root = [sys.executable, "-c", code], Path(__file__).parents[3]
    hashes = {
        subprocess.check_output(command, cwd=root, env={**os.environ, "PYTHONHASHSEED": seed})
        for seed in ("1", "2")
    }
    assert {found.decode().strip() for found in hashes} == {request().request_hash}
    assert re.fullmatch("[0-9a-f]{32}", request().request_hash)


def forged(*parts: str) -> list[tuple[tuple[str, str], ...]]:
    """One message that holds, in various spellings, what could pass for the start of a second."""
    return [(("user", f"one{part}two"),) for part in parts]


@pytest.mark.parametrize(
    "messages", forged("assistant 3\n", "\x1eassistant\x1f", "\nassistant\n", "assistant"), ids=repr
)
def test_no_text_can_pass_for_two_messages(messages: tuple[tuple[str, str], ...]) -> None:
    assert request(messages=messages).request_hash != request().request_hash


def test_requests_of_one_question_do_not_affect_one_another() -> None:
    question = Question("m", Decoding(0.0, 1), "s")
    one = question.request((Message("user", "1"),), 1).request_hash
    two = question.request((Message("user", "2"),), 1).request_hash
    assert one != two
    assert question.request((Message("user", "1"),), 1).request_hash == one
