"""Verification: every ground by a table, what is no ground, and whose decision wins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gavel.errors import FashionError
from gavel.fashion.conversation import Conversation
from gavel.fashion.verify import Check, decide, flags, read_decisions
from gavel.fashion.vocabulary import Vocabulary

from .conftest import goal, said, searched, talk, wrote

FINE = [searched("black nike shoes", "black Nike shoes"), searched("size m", "x"), said("ok")]
THEME = {"theme": "party in a Greek taverna"}


@pytest.mark.parametrize(
    ("conversation", "grounds"),
    [
        (talk(*FINE), []),
        (talk(*FINE, outcome="broken"), ["wrong_format"]),
        (talk(*FINE, outcome="turn_limit"), ["customer_behaviour"]),
        (talk(wrote("black nike shoes", "Which?"), said("ok")), ["customer_behaviour"]),
        (talk(wrote("nike shoes", "Which?"), outcome="no_progress"), []),
        (talk(searched("Error 500 nike shoes", "x")), ["error_text"]),
        (talk(searched("nike shoes, as an AI language model", "x")), ["error_text"]),
        (talk(wrote("nike shoes", "Traceback (most recent call last)"), *FINE), ["error_text"]),
        (talk(searched("nike <|im_end|>", "x")), ["error_text"]),
        (talk(searched("I have 500 nike shoes", "x")), []),
        (talk(searched("nike shoes " + "and so on " * 10, "x")), ["customer_behaviour"]),
        (
            talk(searched("nike shoes " + "and so on " * 10, "x"), goal=goal(personality="rude")),
            [],
        ),
        (
            talk(searched("black nike shoes size M", "x"), goal=goal(personality="indecisive")),
            ["customer_behaviour"],
        ),
        (talk(searched("red nike shoes", "x")), ["unfaithful"]),
        (talk(searched("hello", "x")), ["unfaithful"]),
        # Words of ordinary talk contradict nothing, nor do attributes that the goal leaves open.
        (talk(searched("nike shoes, a small question", "x")), []),
        (talk(searched("leather nike shoes", "x")), []),
        (talk(searched("party in a taverna", "x"), goal=goal(**THEME)), []),
        (talk(searched("Greek food", "x"), goal=goal(**THEME)), ["unfaithful"]),
    ],
)
def test_the_grounds_that_rules_find(
    conversation: Conversation, grounds: list[str], vocabulary: Vocabulary
) -> None:
    found = flags(conversation, vocabulary, "not_json: x")
    assert [ground for ground, _ in found] == grounds
    assert all(reason for _, reason in found)


ANYBODY: dict[tuple[str, str], tuple[bool, str]] = {}


@pytest.mark.parametrize(
    ("found", "check", "people", "expected"),
    [
        ([], None, ANYBODY, (True, "rules", [])),
        ([("unfaithful", "x")], None, ANYBODY, (False, "rules", ["unfaithful"])),
        ([], Check(["error_text"], "y"), ANYBODY, (False, "verifier", ["error_text"])),
        (
            [("unfaithful", "x")],
            None,
            {("e00001", ""): (True, "fine")},
            (True, "person", ["unfaithful"]),
        ),
        ([], None, {("e00001", ""): (False, "odd")}, (False, "person", ["person"])),
        ([], None, {("e00001", "de"): (False, "odd")}, (True, "rules", [])),
        (
            [],
            None,
            {("e00001", ""): (False, "a"), ("e00001", "en"): (True, "b")},
            (True, "person", []),
        ),
    ],
)
def test_whose_decision_wins(found: Any, check: Any, people: Any, expected: Any) -> None:
    decision = decide(talk(*FINE), found, check, people)
    assert (decision.kept, decision.decided_by, decision.grounds) == expected
    assert decision.kept or decision.reasons


def test_what_holds_no_message_cannot_be_kept(vocabulary: Vocabulary) -> None:
    for outcome, ground in [
        ("customer_broke", "wrong_format"),
        ("no_progress", "customer_behaviour"),
        ("success", "customer_behaviour"),
    ]:
        empty = talk(outcome=outcome)
        decision = decide(
            empty, flags(empty, vocabulary, None), None, {("e00001", ""): (True, "fine")}
        )
        assert (decision.kept, decision.decided_by) == (False, "rules")
        assert ground in decision.grounds
        assert decision.reasons[-1] == "a person keeps it (fine), but it holds no message"


def test_a_verifier_without_an_answer_removes_nothing_and_is_told() -> None:
    from gavel.judge.prompts import Fault

    decision = decide(talk(*FINE), [], Check(faults=[Fault("timeout", "60 s")]), {})
    assert decision.kept
    assert decision.reasons == ["the verifier could not be got to answer: timeout"]


def test_decisions_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "decisions.csv"
    path.write_text(
        "id,language,decision,reason,goal\ne00001,,remove,odd,x\ne00002,de,keep,,x\ne00003,,,,x\n"
    )
    assert read_decisions(path) == {
        ("e00001", ""): (False, "odd"),
        ("e00002", "de"): (True, "no reason given"),
    }


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("id,language\n", "the column decision is missing"),
        ("id,decision\ne1,maybe\n", "line 2: decision 'maybe'"),
        ("id,language,decision\ne1,gr,keep\n", "language 'gr'"),
        ("id,decision\ne1,keep\ne1,remove\n", "line 3: 'e1' is both kept and removed"),
    ],
)
def test_malformed_decisions_are_told(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "decisions.csv"
    path.write_text(text)
    with pytest.raises(FashionError, match=told):
        read_decisions(path)
    with pytest.raises(FashionError, match="cannot be read"):
        read_decisions(tmp_path / "none.csv")
