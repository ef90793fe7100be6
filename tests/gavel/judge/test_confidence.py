"""How sure the evaluator is of each field: by its tokens, or by repeated answers."""

from __future__ import annotations

import json
from math import log
from typing import Any

import pytest

from gavel.judge.confidence import by_samples, by_tokens, expected_score
from gavel.judge.rubric import Dimension

from .conftest import TINY

GRADE = Dimension(name="g", type="integer", min=1, max=5, description="")


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ({"4": log(0.6), "5": log(0.3), "the": log(0.1)}, 13 / 3),
        ({" 4": log(0.2), "4": log(0.2), "2,": log(0.4)}, 3.0),
        # What the dimension does not accept was never a score.
        ({"4": log(0.5), "9": log(0.4), "3.5": log(0.1)}, 4.0),
        ({"good": log(0.9)}, None),
        ({"nan": log(0.5), "inf": log(0.5)}, None),
        ({}, None),
    ],
)
def test_expected_score(tokens: dict[str, float], expected: float | None) -> None:
    found = expected_score(tokens, GRADE)
    assert found == (None if expected is None else pytest.approx(expected))


def tokens(*parts: Any) -> tuple[str, str]:
    """The text of (token, probability, alternatives) or plain tokens of probability 1, and the JSON of them."""
    whole = [part if isinstance(part, tuple) else (part, 1.0, {}) for part in parts]
    return "".join(text for text, _, _ in whole), json.dumps(
        [[t, log(p), {k: log(v) for k, v in others.items()}] for t, p, others in whole]
    )


VALUES = {"helpfulness": 4.0, "depth": 0.25, "intent": "buy", "sub_intent": "nails"}


def test_scores_by_their_alternatives_and_labels_by_their_tokens() -> None:
    text, logprobs = tokens(
        '{"rationale": "as \\"helpfulness\\": 1 says",',
        ' "helpfulness": ',
        ("4", 0.5, {"4": 0.5, "5": 0.25, "3": 0.05, "7": 0.1}),
        ', "depth": ',
        *[("0", 0.9, {"0": 0.9, "1": 0.1}), (".", 1.0, {}), ("25", 0.5, {})],
        ', "intent": ',
        *[('"b', 0.8, {}), ('uy"', 0.9, {})],
        ', "sub_intent": "nails", "acceptability": "acceptable"}',
    )
    found = {each.field: each for each in by_tokens(text, logprobs, VALUES, TINY)}
    assert found["helpfulness"].confidence == pytest.approx(0.5 / 0.8)
    assert found["helpfulness"].expected == pytest.approx((2 + 1.25 + 0.15) / 0.8)
    # In several tokens, a number has a probability and no expectation.
    assert found["depth"].confidence == pytest.approx(0.45)
    assert found["depth"].expected is None
    assert found["intent"].confidence == pytest.approx(0.72)
    assert found["sub_intent"].confidence == 1
    assert "acceptability" not in found, "it has no value"


@pytest.mark.parametrize(
    ("text", "logprobs"),
    [
        ('{"helpfulness": 4}', None),
        # Tokens that are not the text: of the thinking, or of another answer.
        ('{"helpfulness": 4}', json.dumps([["x", -0.1, {}]])),
        # Twice there, so that nobody knows which.
        *[tokens('{"helpfulness": 4, "x": {"helpfulness": 4}}')],
        *[tokens('{"helpfulness": ')],
        *[tokens('{"other": 4}')],
    ],
)
def test_what_cannot_be_placed_is_left_out(text: str, logprobs: str | None) -> None:
    assert by_tokens(text, logprobs, {"helpfulness": 4.0}, TINY) == []


def test_repeated_answers() -> None:
    answers = [
        {"helpfulness": 4.0, "depth": None, "intent": "buy"},
        {"helpfulness": 5.0, "depth": 0.5, "intent": "buy"},
        {"helpfulness": 4.0, "depth": 0.5, "intent": "return"},
        {"helpfulness": 3.0, "depth": 0.5, "intent": "buy"},
    ]
    found = {each.field: each for each in by_samples(answers, TINY)}
    assert (found["helpfulness"].confidence, found["helpfulness"].expected) == (0.5, 4.0)
    assert (found["intent"].confidence, found["intent"].expected) == (0.75, None)
    assert "depth" not in found
    assert by_samples(answers[:1], TINY) == []
