"""The floors: the same answer to every record, valid by the rubric, and the one that people give most often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from gavel.judge.floors import constant_answer, fixed_judge, majority_answer
from gavel.judge.rubric import load_rubric
from gavel.judge.verdicts import read_answer
from tests.gavel.judge.conftest import PROMPTS, TINY, answer


@pytest.mark.parametrize(
    ("people", "expected"),
    [
        ({}, {"helpfulness": 3, "depth": 0.5, "intent": "buy", "sub_intent": "paint"}),
        ({"helpfulness": [1.0, 5.0, 5.0]}, {"helpfulness": 5}),
        # The mean of two annotators lies between the grades; a tie goes to the lower value.
        ({"helpfulness": [1.6, 2.0, 4.0, 4.4]}, {"helpfulness": 2}),
        ({"depth": [0.1, 0.1, 0.9]}, {"depth": 0.1}),
        ({"intent": ["return", "return", "buy"]}, {"intent": "return", "sub_intent": "broken"}),
        (
            # "nails" is the most frequent of all, under a parent that is not.
            {
                "intent": ["return", "return", "buy"],
                "sub_intent": ["nails", "nails", "wrong size"],
            },
            {"intent": "return", "sub_intent": "wrong size"},
        ),
        ({"intent": ["return", "buy"]}, {"intent": "buy"}),
    ],
)
def test_the_majority_is_what_people_say_most(
    people: Mapping[str, Sequence[Any]], expected: dict[str, Any]
) -> None:
    found = majority_answer(TINY, people)
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("task", ["chat", "translation"])
def test_floors_are_valid_by_the_bundled_rubrics(task: str) -> None:
    rubric = load_rubric(PROMPTS / task)
    last = {name: [values[-1]] for name, values in rubric.label_values.items()}
    for given in (constant_answer(rubric), majority_answer(rubric, last)):
        judge = fixed_judge("floor", rubric, given)
        request = judge.question(100).request((), 1)
        (answers,) = judge.backend.answers([request])
        reading = read_answer(answer(answers[0].text), rubric)
        assert reading.valid, reading.faults


def test_another_answer_is_another_model() -> None:
    one, same, other = (
        fixed_judge("majority", TINY, {"helpfulness": value}) for value in (1, 1, 2)
    )
    assert one.config_hash == same.config_hash != other.config_hash
