"""Every fault a server can bring about lands in the verdict of its record, and nowhere else."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from gavel.errors import EvaluatorOutage
from gavel.judge.verdicts import FAULTS
from tests.endpoint import Ask, Endpoint, Reply

from .judging import GOOD, Bench, answer, judge_at

BAD = "record 7"
RECORDS = 10


def error(status: int, code: str | None, message: str, **settings: Any) -> Reply:
    return Reply(status=status, body={"error": {"code": code, "message": message}}, **settings)


OVERFLOW = "This model's maximum context length is 4096 tokens, you requested 9000."
MODERATED = "The prompt triggered Azure OpenAI's content management policy."
CASES: list[tuple[str, str, Reply, str, int]] = [
    # what the server does, the fault, its reply, words of the detail, tries of the record
    ("prose", "not_json", Reply("Four stars!"), "Four stars!", 1),
    ("two objects", "not_json", Reply(answer() + answer(clarity=3)), "2 different", 1),
    ("missing", "missing_field", Reply(answer(clarity=...)), "clarity", 1),
    ("text", "wrong_type", Reply(answer(clarity="2")), "clarity: '2' is not a number", 1),
    ("true", "wrong_type", Reply(answer(clarity=True)), "clarity", 1),
    ("null", "wrong_type", Reply(answer(clarity=None)), "clarity", 1),
    ("half", "wrong_type", Reply(answer(clarity=2.5)), "2.5 is not a whole number", 1),
    ("too high", "out_of_range", Reply(answer(clarity=6)), "6 is not within 1 to 5", 1),
    ("no label", "unknown_label", Reply(answer(topic="Tools")), "topic: 'Tools'", 1),
    ("wrong parent", "label_mismatch", Reply(answer(topic="paint")), "saw belongs under", 1),
    ("cut", "truncated", Reply('{"helpful', finish_reason="length"), "max_tokens", 1),
    ("cut but whole", "truncated", Reply(answer(), finish_reason="length"), "max_tokens", 1),
    ("nothing", "empty_response", Reply(""), "stop", 1),
    ("null text", "empty_response", Reply(None), "stop", 1),
    ("white space", "empty_response", Reply(" \n"), "stop", 1),
    ("refusal", "refused", Reply(None, refusal="I will not."), "I will not.", 1),
    ("apology", "refused", Reply("I'm sorry, I cannot do that."), "I'm sorry", 1),
    ("400", "context_overflow", error(400, "context_length_exceeded", "x"), "http_400", 1),
    ("vLLM", "context_overflow", error(400, None, OVERFLOW), "9000", 1),
    ("413", "context_overflow", Reply(status=413, body="Payload Too Large"), "http_413", 1),
    ("filtered", "content_filter", Reply("{", finish_reason="content_filter"), "filter", 1),
    ("Azure", "content_filter", error(400, "content_filter", MODERATED), "http_400", 1),
    ("other 400", "transport", error(400, None, "bad seed"), "http_400: bad seed", 1),
    ("500", "transport", error(500, None, "CUDA error"), "http_500: CUDA error", 4),
    ("502 HTML", "transport", Reply(status=502, body="<h1>Bad Gateway"), "<h1>Bad Gateway", 4),
    ("surrogate", "transport", error(500, None, "\ud800"), "http_500", 4),
    ("dropped", "transport", Reply(drop=True), "connection", 4),
    ("cut off", "transport", Reply(cut=True), "connection", 4),
    ("200 HTML", "transport", Reply(body="<html>Log in</html>"), "<html>Log in", 4),
    ("200 empty", "transport", Reply(body=""), "not a chat completion", 4),
    ("200 error", "transport", Reply(body={"error": {"message": "no"}}), "not a chat", 4),
    ("no choices", "transport", Reply(body={"choices": []}), "not a chat completion", 4),
    ("gzip", "transport", Reply(body="no", headers={"Content-Encoding": "gzip"}), "connection", 4),
    ("silent", "timeout", Reply(delay=60), "no answer within 2 s", 2),
    ("slow loris", "timeout", Reply(trickle=0.05), "no answer within 2 s", 2),
]


@pytest.mark.parametrize(
    ("fault", "reply", "detail", "tries"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_a_bad_reply_is_a_fault_of_its_record_alone(
    bench: Bench, fault: str, reply: Reply, detail: str, tries: int
) -> None:
    def behave(ask: Ask) -> Reply:
        return reply if ask.record == BAD else Reply(answer())

    settings = {"timeout": 2.0, "retries": 1} if fault == "timeout" else {}
    with Endpoint(behave) as endpoint:
        judged = bench.judge(judge_at(endpoint.url, **settings), RECORDS)
        asked = [body for body in endpoint.bodies if body["messages"][1]["content"] == BAD]
    rows = bench.rows()
    bad = rows.pop(7)
    assert (bad["status"], bad["faults"]) == ("invalid", [fault])
    assert detail in bad["fault_detail"]
    assert len(asked) == tries
    assert len(bad["retries"]) == tries - 1
    if fault in ("label_mismatch", "out_of_range"):
        assert bad["raw_response"] == reply.text
    assert bad["clarity"] in (None, GOOD["clarity"]), "no score is guessed"
    assert len(rows) == RECORDS - 1
    assert all(row["status"] == "valid" and row["faults"] == [] for row in rows)
    assert all({name: row[name] for name in GOOD} == GOOD for row in rows)
    assert (judged.rows, judged.valid, dict(judged.faults)) == (RECORDS, RECORDS - 1, {fault: 1})


def test_the_cases_cover_every_reason_code() -> None:
    assert {case[1] for case in CASES} == set(FAULTS)


def test_several_faults_of_one_answer_are_all_named(bench: Bench) -> None:
    with Endpoint(lambda ask: Reply(answer(clarity=0, helpfulness=..., topic="x"))) as endpoint:
        bench.judge(judge_at(endpoint.url), 1)
    assert sorted(bench.rows()[0]["faults"]) == ["missing_field", "out_of_range", "unknown_label"]


@pytest.mark.parametrize(
    "odd",
    [
        {"usage": {"prompt_tokens": "many", "completion_tokens": 1.5}},
        {"usage": {"prompt_tokens": -1, "completion_tokens": 2**64 - 1}},
        {"usage": None, "model": None, "system_fingerprint": None},
        {"usage": {"prompt_tokens": True, "completion_tokens": None}},
    ],
    ids=str,
)
def test_odd_fields_beside_a_good_answer_do_no_harm(bench: Bench, odd: dict[str, Any]) -> None:
    choice = {"message": {"content": answer()}, "finish_reason": "stop"}
    with Endpoint(lambda ask: Reply(body={"choices": [choice], **odd})) as endpoint:
        bench.judge(judge_at(endpoint.url), 2)
    assert [row["status"] for row in bench.rows()] == ["valid", "valid"]
    assert {row["prompt_tokens"] for row in bench.rows()} == {None}


@pytest.mark.parametrize(
    ("choice", "fault"),
    [
        ({"message": {"content": "x\0y"}, "finish_reason": "stop"}, "not_json"),
        ({"message": {"content": [1, 2]}, "finish_reason": "stop"}, "not_json"),
        ({"message": {"content": None}, "finish_reason": 3}, "empty_response"),
        ({"message": {"content": "{}", "refusal": {"why": "no"}}}, "refused"),
    ],
    ids=str,
)
def test_an_odd_answer_is_kept_and_named(bench: Bench, choice: Any, fault: str) -> None:
    with Endpoint(lambda ask: Reply(body={"choices": [choice]})) as endpoint:
        bench.judge(judge_at(endpoint.url), 1)
    assert bench.rows()[0]["faults"] == [fault]
    content = choice["message"]["content"]
    kept = bench.rows()[0]["raw_response"]
    assert kept == (
        content if isinstance(content, str | None) else json.dumps(content).replace(" ", "")
    )


def test_a_server_that_speaks_no_http_is_an_outage(bench: Bench) -> None:
    with (
        speaking(b"SSH-2.0-OpenSSH_9.6\r\n") as port,
        pytest.raises(EvaluatorOutage, match=str(port)),
    ):
        bench.judge(judge_at(f"http://127.0.0.1:{port}/v1"), 3)
    assert not bench.verdicts.exists()


@contextmanager
def speaking(greeting: bytes) -> Iterator[int]:
    """A TCP server that greets whoever connects, and hangs up."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(1 << 16)
                connection.sendall(greeting)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)
