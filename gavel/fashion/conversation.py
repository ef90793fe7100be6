"""Conversations: turns of a customer and an assistant, and the engine that lets the two talk.

All open conversations go on in rounds: every customer is asked, then every assistant. A turn is an answer in
the ledger, so a run that was killed comes to the same turns without asking for them again, and goes on
after the last one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from gavel.fashion.actions import Action, Line
from gavel.fashion.catalogue import MARKER, Catalogue, carousel
from gavel.fashion.goals import Goal
from gavel.inference.settle import Row, Settled
from gavel.judge.prompts import Fault

OUTCOMES = {
    "success": "the customer ended it, content",
    "no_progress": "the customer ended it, not content",
    "replayed": "a recorded customer, whatever it wanted, has no further message",
    "one_exchange": "a template customer, who writes once",
    "turn_limit": "the customer had not ended it when the turns were used up",
    "broken": "a reply of the assistant could not be used, in all attempts",
    "customer_broke": "a reply of the customer could not be used, in all attempts",
}
"""How a conversation ended."""


@dataclass(slots=True)
class Turn:
    """What the customer wrote and what the assistant did; `action` is None while, or because, it did nothing.

    `items` is what the customer was shown after a search.
    """

    customer: str
    action: str | None = None
    text: str = ""
    queries: list[str] = field(default_factory=list)
    items: str = ""


@dataclass(slots=True)
class Conversation:
    """One conversation; `lines` are the customer's messages where they are replayed.

    `failures` and `answers` are the assistant's. A simulated customer's failures are kept apart, and what it
    costs is nobody's figure. `all_info` says that the customer names every property of the goal in it, once it
    has ended.
    """

    goal: Goal
    language: str = "en"
    turns: list[Turn] = field(default_factory=list)
    outcome: str | None = None
    failures: Counter[str] = field(default_factory=Counter)
    customer_failures: Counter[str] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)
    answers: list[Row] = field(default_factory=list)
    lines: Sequence[str] = ()
    all_info: bool = False

    def searches(self) -> list[list[str]]:
        """The queries of each search."""
        return [turn.queries for turn in self.turns if turn.action == "search"]

    def note(self, settled: Settled[Line] | Settled[Action], failures: Counter[str]) -> None:
        """Count the failures of a reply, those of its earlier attempts included, among `failures`."""
        self.faults += settled.reading.faults
        for reading in settled.readings:
            failures.update({*reading.notes, *(fault.code for fault in reading.faults)})


class Customer(Protocol):
    """Whoever writes the customer's part of some conversations."""

    def lines(self, conversations: Sequence[Conversation]) -> list[Settled[Line]]:
        """The next line of each."""
        ...


class Assistant(Protocol):
    """Whoever takes the assistant's part."""

    def actions(self, conversations: Sequence[Conversation]) -> list[Settled[Action]]:
        """The action after the last turn of each."""
        ...


@dataclass(frozen=True)
class Replay:
    """A customer who repeats the recorded lines, whatever the assistant does, and then goes."""

    def lines(self, conversations: Sequence[Conversation]) -> list[Settled[Line]]:
        """The next recorded line, or the end."""
        return [
            Settled(
                [
                    Line(c.lines[len(c.turns)])
                    if len(c.turns) < len(c.lines)
                    else Line(end="replayed")
                ]
            )
            for c in conversations
        ]


Shop = Callable[[Sequence[str]], str]
"""What a customer is shown of a search."""


def shop(catalogue: Catalogue | None, most: int) -> Shop:
    """The carousel over `catalogue`, or the bare marker without one."""
    if catalogue is None:
        return lambda queries: MARKER
    return lambda queries: carousel(catalogue.search(queries, most))


def converse(
    conversations: Sequence[Conversation],
    customers: Mapping[str, Customer],
    assistant: Assistant,
    shown: Shop,
    turn_limit: int,
    progress: Callable[[str], None] = lambda sentence: None,
) -> None:
    """Carry on `conversations` to their ends, in place; `customers` are by the name in the goal.

    Raises:
        EvaluatorOutage, EvaluatorRefused, BudgetSpent: whose answers so far are in the ledger.
    """
    for number in range(turn_limit + 1):
        open_ = [c for c in conversations if c.outcome is None]
        if not open_:
            return
        for name, customer in customers.items():
            own = [c for c in open_ if c.goal.customer == name]
            for conversation, settled in zip(own, customer.lines(own) if own else [], strict=True):
                _hear(conversation, settled, number == turn_limit)
        waiting = [c for c in open_ if c.outcome is None]
        if waiting:
            for conversation, act in zip(waiting, assistant.actions(waiting), strict=True):
                _act(conversation, act, shown)
        ended = sum(c.outcome is not None for c in conversations)
        progress(
            f"round {number + 1}: {ended:,} of {len(conversations):,} conversations have ended"
        )


def _hear(conversation: Conversation, settled: Settled[Line], last: bool) -> None:
    conversation.note(settled, conversation.customer_failures)
    line = settled.reading
    if line.faults:
        conversation.outcome = "customer_broke"
    elif line.end != "no":
        conversation.outcome = line.end
        if line.text:
            conversation.turns.append(Turn(line.text))
    elif last:
        conversation.outcome = "turn_limit"
    else:
        conversation.turns.append(Turn(line.text))


def _act(conversation: Conversation, settled: Settled[Action], shown: Shop) -> None:
    conversation.note(settled, conversation.failures)
    conversation.answers += settled.answers
    action, turn = settled.reading, conversation.turns[-1]
    if action.faults:
        conversation.outcome = "broken"
        return
    turn.action, turn.text, turn.queries = action.kind, action.text, list(action.queries)
    if action.kind == "search":
        turn.items = shown(action.queries)
    if conversation.goal.customer_kind == "template" and not conversation.lines:
        conversation.outcome = "one_exchange"


def plain_turns(conversation: Conversation) -> list[dict[str, Any]]:
    """The turns as rows: customer, assistant, queries, action; the shape of the data set."""
    return [
        {
            "customer": turn.customer,
            "assistant": turn.text or None,
            "queries": turn.queries,
            "action": turn.action,
            "items": turn.items or None,
        }
        for turn in conversation.turns
    ]
