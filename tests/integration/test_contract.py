"""The evaluators that need no GPU keep to the contract of all: rules, and a model behind HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from gavel.inference.rules import Rules
from gavel.judge.evaluate import Judge
from gavel.judge.heuristic import REVISION, judge_by_rule
from gavel.judge.prompts import Prompts
from gavel.settings.judging import Evaluator
from tests.endpoint import Ask, Endpoint, Reply

from .contract import Contract, ModelContract
from .judging import GOOD, RUBRIC, Bench, judge_at


class TestRules(Contract):
    def judge(self, **settings: Any) -> Judge:
        evaluator = Evaluator(backend="heuristic", model=REVISION, **settings)
        backend = Rules(judge_by_rule, REVISION)
        return Judge(RUBRIC, Prompts(RUBRIC, "tiny"), "rules", evaluator, backend)


class TestHTTP(ModelContract):
    @pytest.fixture(autouse=True)
    def served(self) -> Iterator[None]:
        def behave(ask: Ask) -> Reply:
            short = ask.body["max_tokens"] < 20
            text = json.dumps(GOOD)
            return Reply(text[:9] if short else text, finish_reason="length" if short else "stop")

        with Endpoint(behave) as self.endpoint:
            yield

    def judge(self, **settings: Any) -> Judge:
        return judge_at(self.endpoint.url, **settings)


def test_a_server_that_names_no_fingerprint_is_asked_for_its_version_once(bench: Bench) -> None:
    completion = {
        "model": "Qwen3-8B",
        "choices": [{"message": {"content": json.dumps(GOOD)}, "finish_reason": "stop"}],
    }
    with Endpoint(lambda ask: Reply(body=completion), version="0.32.0") as endpoint:
        bench.judge(judge_at(endpoint.url), 20)
        assert endpoint.versions_told == 1
    assert {row["model_revision"] for row in bench.rows()} == {"Qwen3-8B@0.32.0"}


def test_a_server_that_tells_no_version_is_asked_for_it_once(bench: Bench) -> None:
    completion = {"model": "m", "choices": [{"message": {"content": json.dumps(GOOD)}}]}
    with Endpoint(lambda ask: Reply(body=completion)) as endpoint:
        assert bench.judge(judge_at(endpoint.url), 20).valid == 20
        assert endpoint.versions_told == 1
    assert {row["model_revision"] for row in bench.rows()} == {"m"}
