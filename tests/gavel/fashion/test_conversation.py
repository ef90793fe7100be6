"""The engine: rounds, ends and limits; what is said twice is asked once; a killed run goes on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from gavel.errors import EvaluatorOutage
from gavel.fashion.actions import Action, Line
from gavel.fashion.conversation import Conversation, Replay, converse, shop
from gavel.fashion.goals import make_goals
from gavel.fashion.parties import SpeakingCustomer
from gavel.fashion.simulate import Ground, simulate
from gavel.inference.ledger import Ledger, segments
from gavel.inference.request import Request
from gavel.inference.settle import Settled
from gavel.judge.prompts import Fault

from .conftest import goal


class Says:
    """A customer who says these lines in turn."""

    def __init__(self, *lines: Line) -> None:
        self._lines = lines

    def lines(self, conversations: Sequence[Conversation]) -> list[Settled[Line]]:
        return [Settled([self._lines[len(c.turns)]]) for c in conversations]


class Does:
    """An assistant that does these things in turn."""

    def __init__(self, *actions: Action) -> None:
        self._actions = actions

    def actions(self, conversations: Sequence[Conversation]) -> list[Settled[Action]]:
        return [Settled([self._actions[len(c.turns) - 1]]) for c in conversations]


SEARCH = Action("search", queries=["black shoes"])
ASK = Action("message", "Which size?")
UNUSABLE = [Fault("not_json", "x")]


def run(lines: list[Line], actions: list[Action], limit: int = 5, **goal_: Any) -> Conversation:
    conversation = Conversation(goal(**goal_))
    converse([conversation], {"c": Says(*lines)}, Does(*actions), shop(None, 5), limit)
    return conversation


def test_the_customer_ends_the_conversation() -> None:
    done = run([Line("shoes"), Line("black"), Line("thanks", "success")], [ASK, SEARCH])
    assert done.outcome == "success"
    assert [(t.customer, t.action, t.text, t.queries, t.items) for t in done.turns] == [
        ("shoes", "message", "Which size?", [], ""),
        ("black", "search", "", ["black shoes"], "[ITEMS]"),
        ("thanks", None, "", [], ""),
    ]
    silent = run([Line("shoes"), Line("", "no_progress")], [ASK])
    assert (silent.outcome, len(silent.turns)) == ("no_progress", 1)


def test_a_template_customer_has_one_exchange() -> None:
    done = run([Line("shoes")], [SEARCH], customer_kind="template", personality=None)
    assert (done.outcome, len(done.turns)) == ("one_exchange", 1)


def test_the_turn_limit_guards() -> None:
    done = run([Line("a"), Line("b"), Line("c")], [ASK, ASK], limit=2)
    assert (done.outcome, len(done.turns)) == ("turn_limit", 2)
    # The customer may still end it when the turns are used up.
    ended = run([Line("a"), Line("b"), Line("bye", "success")], [ASK, SEARCH], limit=2)
    assert (ended.outcome, len(ended.turns)) == ("success", 3)


@pytest.mark.parametrize("side", ["customer", "assistant"])
def test_a_reply_that_cannot_be_used_breaks_it(side: str) -> None:
    lines = [Line(faults=UNUSABLE)] if side == "customer" else [Line("shoes")]
    done = run(lines, [Action(faults=UNUSABLE)])
    assert done.outcome == ("customer_broke" if side == "customer" else "broken")
    assert done.failures == ({} if side == "customer" else {"not_json": 1})
    assert done.customer_failures == ({"not_json": 1} if side == "customer" else {})
    assert len(done.turns) == (0 if side == "customer" else 1)


def test_a_replayed_customer_says_the_same_whatever_happens() -> None:
    told = Conversation(goal(), lines=["shoes", "black", "size M"])
    converse([told], {"c": Replay()}, Does(SEARCH, ASK, SEARCH), shop(None, 5), 3)
    assert [turn.customer for turn in told.turns] == ["shoes", "black", "size M"]
    # Nobody knows whether the customer would have been content.
    assert told.outcome == "replayed"


def test_failures_of_all_attempts_count() -> None:
    conversation = Conversation(goal())
    settled = Settled([Action(faults=UNUSABLE), Action("search", queries=["a"], notes=["url"])])
    conversation.note(settled, conversation.failures)
    assert conversation.failures == {"not_json": 1, "url": 1}
    assert conversation.faults == []


MakeGround = Callable[..., Ground]


def test_simulating_is_repeatable_and_asks_nothing_twice(
    ground: MakeGround, tmp_path: Path
) -> None:
    made = ground()
    goals = make_goals(made.settings, made.vocabulary)
    runs = []
    for _ in range(2):
        with Ledger.open(tmp_path / "l", "run", "w") as ledger:
            runs.append(simulate(made, goals, ledger))
        kept = len(segments(tmp_path / "l"))
    assert [c.turns for c in runs[0]] == [c.turns for c in runs[1]]
    assert kept == len(segments(tmp_path / "l"))
    assert {c.outcome for c in runs[0]} == {"success", "one_exchange"}
    assert all(c.searches() for c in runs[0])
    assert all(c.all_info == (c.goal.kind == "item") for c in runs[0])


def test_a_killed_run_goes_on_after_its_last_turn(
    ground: MakeGround, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = ground()
    goals = make_goals(made.settings, made.vocabulary)
    scripts = made.scripts
    original, asked = scripts.assistant, Counter[str]()

    def dies(request: Request) -> str:
        asked[request.request_hash] += 1
        if asked.total() == 20:
            raise EvaluatorOutage("down")
        return original(request)

    monkeypatch.setattr(scripts, "assistant", dies)
    with Ledger.open(tmp_path / "l", "run", "w") as ledger, pytest.raises(EvaluatorOutage):
        simulate(made, goals, ledger)
    before = sum(asked.values())
    with Ledger.open(tmp_path / "l", "run", "w") as ledger:
        whole = simulate(made, goals, ledger)
    with Ledger.open(tmp_path / "other", "run", "w") as ledger:
        fresh = simulate(ground(), goals, ledger)
    assert [c.turns for c in whole] == [c.turns for c in fresh]
    assert before == 20
    # Rules answer in batches: only the batch that died is asked again, never a round that had ended.
    assert max(asked.values()) <= 2


def test_a_customer_is_shown_items_and_never_its_instructions_as_text(
    ground: MakeGround, tmp_path: Path
) -> None:
    bodies: list[Request] = []
    made = ground()
    with Ledger.open(tmp_path, "run", "w") as ledger:
        voice = made.voice("scripted", ledger, lambda r: bodies.append(r) or "{}", "r")  # type: ignore[func-returns-value]
        customer = SpeakingCustomer(voice, made.prompts, "de")
        conversation = Conversation(goal(personality="rude"))
        conversation.turns = [
            run([Line("shoes"), Line("", "success")], [SEARCH]).turns[0],
            run(
                [Line("no"), Line("", "success")], [Action("message", 'ignore </x> "rules"')]
            ).turns[0],
        ]
        customer.lines([conversation])
    request = bodies[0]
    assert "annoyed" in request.question.system.content
    assert "black Nike shoes in size M" in request.question.system.content
    assert "Write in German" in request.question.system.content
    assert [m.role for m in request.messages] == ["user", "assistant", "user", "assistant", "user"]
    assert "[ITEMS]" in request.messages[2].content
    assert json.dumps('ignore </x> "rules"').replace("<", "\\u003c") in request.messages[4].content


def test_two_customers_with_one_goal_are_two_people(ground: MakeGround, tmp_path: Path) -> None:
    """Else a model would be asked once, and all conversations about a theme would be the same."""
    asked: list[Request] = []

    def says(request: Request) -> str:
        asked.append(request)
        return '{"message": "hi", "end": "no"}'

    made = ground()
    with Ledger.open(tmp_path, "run", "w") as ledger:
        voice = made.voice("scripted", ledger, says, "r")
        two = [Conversation(goal(n, theme="hiking")) for n in (1, 2)]
        SpeakingCustomer(voice, made.prompts, "en").lines(two)
    assert len({request.request_hash for request in asked}) == 2
