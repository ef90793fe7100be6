"""Settling: invalid answers are asked again and known ones are not; results are in the order of the subjects."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from gavel.errors import StoreError
from gavel.inference.ledger import Ledger
from gavel.inference.request import Decoding, Message, Question, Request
from gavel.inference.rules import Rules
from gavel.inference.settle import Desk, Settled, answers_to, settle

QUESTION = Question("m", Decoding(0.0, 1), "s")


def ask_all(folder: Path, subjects: list[str], asked: Counter[str]) -> list[Settled[str]]:
    """Ask about `subjects`; a text that starts with `n!` is valid from the nth attempt on."""

    def rule(request: Request) -> str:
        asked[request.messages[0].content] += 1
        return f"{request.messages[0].content} at {request.attempt}"

    def request(subject: str, attempt: int, reading: str | None, answer: object) -> Request:
        assert (reading is None) == (answer is None) == (attempt == 1)
        return QUESTION.request((Message("user", subject),), attempt)

    def valid(reading: str) -> bool:
        first, _, attempt = reading.rpartition(" at ")
        return int(attempt) >= int(first.split("!")[0])

    with Ledger.open(folder, "run", "w") as ledger:
        desk = Desk(Rules(rule, "r"), ledger)
        return settle(desk, subjects, request, lambda row: str(row["text"]), valid, 3)


def test_the_invalid_are_asked_again_within_the_attempts(tmp_path: Path) -> None:
    asked: Counter[str] = Counter()
    found = ask_all(tmp_path, ["1!a", "3!b", "9!c", "1!a"], asked)
    assert [each.reading for each in found] == ["1!a at 1", "3!b at 3", "9!c at 3", "1!a at 1"]
    assert [len(each.answers) for each in found] == [1, 3, 3, 1]
    assert found[1].readings == ["3!b at 1", "3!b at 2", "3!b at 3"]
    assert asked == {"1!a": 1, "3!b": 3, "9!c": 3}


def test_what_is_known_is_not_asked_again(tmp_path: Path) -> None:
    asked: Counter[str] = Counter()
    first = ask_all(tmp_path, ["1!a", "3!b"], asked)
    again = ask_all(tmp_path, ["3!b", "1!a", "1!d"], asked)
    assert [each.readings for each in again[:2]] == [first[1].readings, first[0].readings]
    assert asked == {"1!a": 1, "3!b": 3, "1!d": 1}


def test_nothing_to_ask_is_nothing_to_read(tmp_path: Path) -> None:
    assert ask_all(tmp_path, [], Counter()) == []


def test_an_answer_that_is_gone_is_told(tmp_path: Path) -> None:
    with Ledger.open(tmp_path, "run", "w"), pytest.raises(StoreError, match="holds no answer"):
        answers_to(tmp_path, [QUESTION.request((Message("user", "x"),), 1)])
