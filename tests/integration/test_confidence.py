"""Confidence from what a server tells of its tokens, and from asking again; both are in the ledger."""

from __future__ import annotations

import json
from math import log
from typing import Any

import pytest

from gavel.settings.judging import Evaluator
from tests.endpoint import Ask, Endpoint, Reply

from .judging import Bench, answer, judge_at


def probable(ask: Ask) -> Reply:
    """A valid answer, a token a character, of which the score of helpfulness is doubtful."""
    text = answer()
    content = []
    for place, character in enumerate(text):
        token: dict[str, Any] = {"token": character, "logprob": 0.0, "top_logprobs": []}
        if place == text.index('"helpfulness": ') + len('"helpfulness": '):
            others = {"4": 0.5, "5": 0.25, "x": 0.25}
            token["logprob"] = log(0.5)
            token["top_logprobs"] = [
                {"token": t, "logprob": log(p), "bytes": None} for t, p in others.items()
            ]
        content.append(token)
    return Reply(text, logprobs={"content": content, "refusal": None})


def test_confidence_by_the_tokens(bench: Bench) -> None:
    with Endpoint(probable) as endpoint:
        judged = bench.judge(judge_at(endpoint.url, confidence="logprobs"), 3)
        assert endpoint.bodies[0]["logprobs"] is True
        assert endpoint.bodies[0]["top_logprobs"] == 10
    assert judged.valid == 3
    for row in bench.rows():
        by_field = {each["field"]: each for each in row["field_confidence"]}
        assert by_field["helpfulness"]["confidence"] == pytest.approx(2 / 3)
        assert by_field["helpfulness"]["expected"] == pytest.approx(13 / 3)
        # The score itself is what the model wrote.
        assert row["helpfulness"] == 4
        assert by_field["topic"] == {"field": "topic", "confidence": 1.0, "expected": None}
        assert row["confidence"] == pytest.approx((2 / 3 + 3) / 4)
    kept = json.loads(str(bench.answers()[0]["logprobs"]))
    assert "".join(token for token, _, _ in kept) == answer()
    assert [others for _, _, others in kept if others] == [{"4": log(0.5), "5": log(0.25)}]


@pytest.mark.parametrize(
    "logprobs",
    [
        None,
        {},
        {"content": None},
        {"content": [{"token": 1}]},
        {"content": [{}]},
        "x",
        {"content": []},
    ],
)
def test_a_server_that_tells_nothing_of_its_tokens(bench: Bench, logprobs: Any) -> None:
    with Endpoint(lambda ask: Reply(answer(), logprobs=logprobs)) as endpoint:
        judged = bench.judge(judge_at(endpoint.url, confidence="logprobs"), 2)
    assert judged.valid == 2
    # What the model says of itself is no substitute.
    assert [(row["confidence"], row["field_confidence"]) for row in bench.rows()] == [
        (None, None)
    ] * 2


def by_seed(ask: Ask) -> Reply:
    """Seed 8 is of another mind about helpfulness, seed 9 gives no valid answer."""
    seed = ask.body["seed"]
    if seed == 9:
        return Reply("no JSON")
    return Reply(answer(helpfulness=2 if seed == 8 else 4))


def test_confidence_by_asking_again(bench: Bench) -> None:
    settings = {"confidence": "sampled", "samples": 4, "temperature": 0.7}
    with Endpoint(by_seed) as endpoint:
        judge = judge_at(endpoint.url, **settings)
        judged = bench.judge(judge, 20)
        assert endpoint.total == 80
        assert {body["seed"] for body in endpoint.bodies} == {7, 8, 9, 10}
        rows = bench.rows()
        # Nothing is asked twice, the further answers neither.
        again = bench.judge(judge, 20, "again")
        assert endpoint.total == 80
    assert (judged.rows, judged.valid, again.valid) == (20, 20, 20)
    for row in rows:
        by_field = {each["field"]: each for each in row["field_confidence"]}
        assert row["helpfulness"] == 4
        assert by_field["helpfulness"]["confidence"] == pytest.approx(2 / 3)
        assert by_field["helpfulness"]["expected"] == pytest.approx(10 / 3)
        assert by_field["topic"]["confidence"] == 1
        assert row["confidence"] == pytest.approx((2 / 3 + 3) / 4)
    reused = {"reused", "run_id", "worker"}
    unchanged = [{k: v for k, v in row.items() if k not in reused} for row in bench.rows()]
    assert unchanged == [{k: v for k, v in row.items() if k not in reused} for row in rows]


def test_an_invalid_first_answer_is_invalid_whatever_the_others_say(bench: Bench) -> None:
    def behave(ask: Ask) -> Reply:
        return Reply("no JSON" if ask.body["seed"] == 7 else answer())

    with Endpoint(behave) as endpoint:
        settings = {"confidence": "sampled", "samples": 3, "temperature": 0.7}
        judged = bench.judge(judge_at(endpoint.url, **settings), 2)
    assert judged.valid == 0
    assert [row["confidence"] for row in bench.rows()] == [None, None]


def test_the_source_of_confidence_is_part_of_the_settings_hash() -> None:
    stated = judge_at("http://127.0.0.1:1/v1", temperature=0.7)
    others = [
        judge_at("http://127.0.0.1:1/v1", temperature=0.7, confidence="logprobs"),
        judge_at("http://127.0.0.1:1/v1", temperature=0.7, confidence="sampled"),
        judge_at("http://127.0.0.1:1/v1", temperature=0.7, confidence="sampled", samples=3),
    ]
    assert len({judge.config_hash for judge in [stated, *others]}) == 4
    with pytest.raises(
        ValueError, match=r"confidence: sampled needs a temperature of 0\.1 or more"
    ):
        Evaluator(backend="heuristic", confidence="sampled")
