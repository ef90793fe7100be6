"""Reading what a server sends: chat completions, malformed ones, and Retry-After."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gavel.inference import openai_compatible
from gavel.inference.dispatch import TransportFault
from gavel.inference.openai_compatible import _answer, _retry_after
from gavel.inference.request import Decoding, Message, Question

REQUEST = Question("m", Decoding(0.0, 1), "s").request((Message("user", "1"),), 3)
NOW = 1_793_620_800.0  # Mon, 02 Nov 2026 12:00:00 GMT


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("0", 0),
        ("7", 7),
        (" 7 ", 7),
        ("0.25", 0.25),
        ("-3", 0),
        ("nan", 0),
        ("", None),
        ("soon", None),
        ("7 seconds", None),
        ("Mon, 02 Nov 2026 12:01:30 GMT", 90),
        ("Mon, 02 Nov 2026 12:01:30 -0000", 90),
        ("Mon, 02 Nov 2026 12:01:30", 90),
        ("Mon, 02 Nov 2026 14:01:30 +0200", 90),
        ("Mon, 02 Nov 2026 11:00:00 GMT", 0),
        ("Mon, 99 Nov 2026 12:00:00 GMT", None),
        ("Mon, 01 Jan 0001 00:00:00 +2300", 0),
    ],
)
def test_retry_after_is_read_in_seconds_or_as_a_date(
    header: str | None, seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_compatible, "time", lambda: NOW)
    monkeypatch.setenv("TZ", "America/New_York")
    __import__("time").tzset()
    try:
        assert _retry_after(header) == seconds
    finally:
        monkeypatch.undo()
        __import__("time").tzset()


def completion(message: Any = None, **fields: Any) -> bytes:
    message = {"role": "assistant", "content": "hello"} if message is None else message
    choice = {"message": message, "finish_reason": "stop", **fields.pop("choice", {})}
    return json.dumps({"choices": [choice], **fields}).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<html>",
        b"null",
        b"[]",
        b'"text"',
        b"{}",
        b'{"choices": null}',
        b'{"choices": []}',
        b'{"choices": {}}',
        b'{"choices": "abc"}',
        b'{"choices": [null]}',
        b'{"choices": [{}]}',
        b'{"choices": [{"message": null}]}',
        b'{"choices": [{"message": "hello"}]}',
        b'{"choices": [{"message": {"content": "\\ud800"}}]}',
        b'{"choices": [{"message": {"content": "\xff"}}]}',
        b'{"error": {"message": "overloaded"}}',
        completion()[:-1],
        completion(usage=[1]),
        completion(model=3),
    ],
    ids=repr,
)
def test_what_is_no_chat_completion_is_a_fault_that_can_be_tried_again(content: bytes) -> None:
    with pytest.raises(TransportFault) as raised:
        _answer(REQUEST, content)
    assert (raised.value.code, raised.value.failure) == ("bad_reply", "transport")
    assert raised.value.retryable
    assert len(raised.value.detail) < 400


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            completion(),
            {"text": "hello", "finish_reason": "stop", "refusal": None, "failure": None},
        ),
        (completion({"content": ""}), {"text": ""}),
        (completion({}), {"text": None, "failure": None}),
        (completion({"content": None, "refusal": "no"}), {"text": None, "refusal": "no"}),
        (completion({"content": {"a": 1}}), {"text": '{"a":1}'}),
        (completion(choice={"finish_reason": "length"}), {"finish_reason": "length"}),
        (completion(choice={"finish_reason": None}), {"finish_reason": None}),
        (completion(choice={"finish_reason": 2}), {"finish_reason": "2"}),
        (completion(choice={"finish_reason": "content_filter"}), {"failure": "content_filter"}),
        (
            completion(usage={"prompt_tokens": 3, "completion_tokens": 4}),
            {"prompt_tokens": 3, "completion_tokens": 4},
        ),
        (completion(usage={"prompt_tokens": "3"}), {"prompt_tokens": None}),
        (completion(usage={"prompt_tokens": True}), {"prompt_tokens": None}),
        (completion(usage={"prompt_tokens": 2**63}), {"prompt_tokens": None}),
        (completion(usage=None), {"prompt_tokens": None, "completion_tokens": None}),
        (completion(model="m-1"), {"model_revision": "m-1"}),
        (completion(model="m-1", system_fingerprint="fp"), {"model_revision": "m-1@fp"}),
        (completion(), {"model_revision": None}),
    ],
)
def test_an_answer_is_read_field_by_field(content: bytes, expected: dict[str, Any]) -> None:
    answer = _answer(REQUEST, content)
    assert (answer.request_hash, answer.attempt) == REQUEST.key
    assert {name: getattr(answer, name) for name in expected} == expected
