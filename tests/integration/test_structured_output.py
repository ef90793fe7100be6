"""What the server takes of structured output is found out with the first request, and then kept to."""

from __future__ import annotations

from collections import Counter

import pytest

from gavel.errors import EvaluatorRefused
from tests.endpoint import Ask, Endpoint, Reply

from .judging import RUBRIC, Bench, answer, judge_at


def mode(ask: Ask) -> str:
    return ask.body.get("response_format", {"type": "none"})["type"]


@pytest.mark.parametrize("status", [400, 422, 500, 501])
@pytest.mark.parametrize(
    ("taken", "found"),
    [
        ({"json_schema", "json_object", "none"}, "json_schema"),
        ({"json_object", "none"}, "json_object"),
        ({"none"}, "none"),
    ],
    ids=["all", "no schema", "neither"],
)
def test_auto_finds_the_strictest_mode_that_the_server_takes(
    bench: Bench, taken: set[str], found: str, status: int
) -> None:
    modes: Counter[str] = Counter()

    def behave(ask: Ask) -> Reply:
        modes[mode(ask)] += 1
        return Reply(answer()) if mode(ask) in taken else Reply(status=status, body="unsupported")

    with Endpoint(behave) as endpoint:
        judged = bench.judge(judge_at(endpoint.url), 60)
    assert judged.valid == 60
    assert modes[found] == 60
    assert sum(modes.values()) - 60 <= 4, "the other modes are tried for the first request only"


@pytest.mark.parametrize("fixed", ["json_schema", "json_object", "none"])
def test_a_mode_that_the_suite_fixes_is_the_only_one_tried(bench: Bench, fixed: str) -> None:
    modes: set[str] = set()

    def behave(ask: Ask) -> Reply:
        modes.add(mode(ask))
        return Reply(status=400, body="unsupported")

    with Endpoint(behave) as endpoint, pytest.raises(EvaluatorRefused, match="refused all 3"):
        bench.judge(judge_at(endpoint.url, structured_output=fixed), 3)
    assert modes == {fixed}


def test_one_passing_server_error_does_not_lose_the_schema(bench: Bench) -> None:
    modes: list[str] = []

    def behave(ask: Ask) -> Reply:
        modes.append(mode(ask))
        return Reply(status=500, body="hiccup") if len(modes) == 1 else Reply(answer())

    with Endpoint(behave) as endpoint:
        bench.judge(judge_at(endpoint.url), 30)
    assert set(modes) == {"json_schema"}


def test_a_first_record_that_does_not_fit_settles_nothing(bench: Bench) -> None:
    modes: list[str] = []

    def behave(ask: Ask) -> Reply:
        modes.append(mode(ask))
        overflow = Reply(status=400, body={"error": {"code": "context_length_exceeded"}})
        return overflow if ask.record == "record 0" else Reply(answer())

    with Endpoint(behave) as endpoint:
        judged = bench.judge(judge_at(endpoint.url), 30)
    assert set(modes) == {"json_schema"}
    assert dict(judged.faults) == {"context_overflow": 1}


def test_the_request_carries_the_rubric_and_the_settings(bench: Bench) -> None:
    with Endpoint(lambda ask: Reply(answer())) as endpoint:
        extra = {"top_p": 0.5}
        judge = judge_at(endpoint.url, temperature=0.25, seed=3, max_tokens=99, extra_body=extra)
        bench.judge(judge, 1)
    (body,) = endpoint.bodies
    schema = {"name": "tiny", "schema": RUBRIC.response_schema(), "strict": True}
    assert body == {
        "model": "m",
        "temperature": 0.25,
        "seed": 3,
        "max_tokens": 99,
        "top_p": 0.5,
        "response_format": {"type": "json_schema", "json_schema": schema},
        "messages": [
            {"role": "system", "content": "Judge."},
            {"role": "user", "content": "record 0"},
        ],
    }
