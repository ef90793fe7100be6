"""Who speaks: customers, assistants and writers of queries, a model or a rule each, asked through the spine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from gavel.fashion.actions import (
    ENDS,
    Action,
    Line,
    read_action,
    read_line,
    read_query,
)
from gavel.fashion.conversation import Conversation, Turn
from gavel.fashion.prompts import LANGUAGES, FashionPrompts, schema_of
from gavel.inference.ask import Asked
from gavel.inference.ledger import Ledger
from gavel.inference.request import Answer, Decoding, Message, Question, Request
from gavel.inference.rules import Rules
from gavel.inference.settle import Desk, Row, Settled, settle
from gavel.judge.backends import backend_of, spending_of
from gavel.judge.prompts import Fault
from gavel.settings.fashion import SCRIPTED
from gavel.settings.judging import Prices
from gavel.suite import Suite

_TEXT = {"type": "string"}
_LINE_SCHEMA = schema_of(message=_TEXT, end={"type": "string", "enum": list(ENDS)})
_ACTION_SCHEMA = schema_of(
    action={"type": "string", "enum": ["message", "search"]},
    message=_TEXT,
    queries={"type": "array", "items": _TEXT},
)
_QUERY_SCHEMA = schema_of(query=_TEXT)

Rule = Callable[[Request], str]


@dataclass(frozen=True)
class Voice:
    """A model, or a rule in its place: what its requests share, and where they are answered."""

    model: str
    decoding: Decoding
    desk: Desk
    attempts: int
    prices: Prices = field(default_factory=Prices)

    def question(self, system: str, schema: dict[str, Any], name: str) -> Question:
        """What requests with this system message share."""
        return Question(self.model, self.decoding, system, schema, name)


def voice_of(
    suite: Suite,
    evaluator: str,
    ledger: Ledger,
    rule: Rule,
    revision: str,
    attempts: int,
    progress: Callable[[Asked, list[Answer]], None] = lambda asked, answers: None,
) -> Voice:
    """The voice of `evaluator`, one of the suite's; `rule` speaks in place of `scripted`.

    `revision` names the rule with all that determines what it says, as a model's name does.
    """
    if evaluator == SCRIPTED:
        desk = Desk(Rules(rule, revision), ledger, None, progress)
        return Voice(revision, Decoding(0.0, 1), desk, attempts)
    settings = suite.evaluators[evaluator]
    decoding = Decoding(
        settings.temperature,
        settings.max_tokens,
        settings.seed,
        tuple(sorted(settings.extra_body.items())),
    )
    desk = Desk(backend_of(settings), ledger, spending_of(suite, settings), progress)
    return Voice(settings.model, decoding, desk, attempts, settings.prices)


class SpeakingCustomer:
    """A simulated customer: a model told its goal and how to behave, or a rule."""

    def __init__(self, voice: Voice, prompts: FashionPrompts, language: str) -> None:
        self._voice, self._prompts = voice, prompts
        self._language = LANGUAGES[language]
        self._questions: dict[str, Question] = {}

    def lines(self, conversations: Sequence[Conversation]) -> list[Settled[Line]]:
        """The next line of each conversation."""
        return _settled(self._voice, self._prompts, conversations, self._asked, read_line)

    def _asked(self, conversation: Conversation) -> tuple[Question, list[Message]]:
        goal = conversation.goal
        if goal.id not in self._questions:
            system = self._prompts.render("customer", "system", goal=goal, language=self._language)
            self._questions[goal.id] = self._voice.question(system, _LINE_SCHEMA, "customer")
        messages = [Message("user", self._prompts.render("customer", "open"))]
        for turn in conversation.turns:
            messages.append(Message("assistant", _json({"message": turn.customer, "end": "no"})))
            messages.append(Message("user", self._prompts.render("customer", "turn", turn=turn)))
        return self._questions[goal.id], messages


class SpeakingAssistant:
    """An assistant: a model with one of the prompts I to III, or a rule."""

    def __init__(self, voice: Voice, prompts: FashionPrompts, variant: str, language: str) -> None:
        self._voice, self._prompts = voice, prompts
        system = prompts.render(
            "assistant", "system", variant=variant, language=LANGUAGES[language]
        )
        self._question = voice.question(system, _ACTION_SCHEMA, "action")

    def actions(self, conversations: Sequence[Conversation]) -> list[Settled[Action]]:
        """The action after the last turn of each conversation."""
        return _settled(self._voice, self._prompts, conversations, self._asked, read_action)

    def _asked(self, conversation: Conversation) -> tuple[Question, list[Message]]:
        messages = []
        shown = None
        for turn in conversation.turns:
            said = self._prompts.render("assistant", "turn", shown=shown, customer=turn.customer)
            messages.append(Message("user", said))
            if turn.action is not None:
                messages.append(Message("assistant", _json(_done(turn))))
            shown = turn.items or None
        return self._question, messages


class QueryWriter:
    """A system that reads whole conversations and writes one query for each: a model, or a rule."""

    def __init__(self, voice: Voice, prompts: FashionPrompts, variant: str) -> None:
        self._voice, self._prompts = voice, prompts
        system = prompts.render("query", "system", variant=variant)
        self._question = voice.question(system, _QUERY_SCHEMA, "query")

    def queries(self, conversations: Sequence[Conversation]) -> list[Settled[Action]]:
        """The query for each conversation, as a search of it."""
        return _settled(self._voice, self._prompts, conversations, self._asked, read_query)

    def _asked(self, conversation: Conversation) -> tuple[Question, list[Message]]:
        text = self._prompts.render("query", "conversation", turns=conversation.turns)
        return self._question, [Message("user", text)]


def _settled(
    voice: Voice,
    prompts: FashionPrompts,
    conversations: Sequence[Conversation],
    asked: Callable[[Conversation], tuple[Question, list[Message]]],
    read: Callable[[Row], Any],
) -> list[Settled[Any]]:
    """One reply to each conversation; one that cannot be used is asked again, shown what was wrong."""
    return ask_about(voice, prompts, conversations, asked, read, lambda reply: reply.faults)


def ask_about(
    voice: Voice,
    prompts: FashionPrompts,
    subjects: Sequence[Any],
    asked: Callable[[Any], tuple[Question, list[Message]]],
    read: Callable[[Row], Any],
    faults: Callable[[Any], Sequence[Fault]],
) -> list[Settled[Any]]:
    """Ask `voice` about each subject through the spine; a faulty reply is shown what was wrong and asked again."""

    def request(subject: Any, attempt: int, before: Any, answer: Row | None) -> Request:
        question, messages = asked(subject)
        said = tuple(messages)
        if before is not None and answer is not None:
            said = prompts.repaired(messages, answer["text"], faults(before))
        return question.request(said, attempt, subject)

    return settle(
        voice.desk, subjects, request, read, lambda reply: not faults(reply), voice.attempts
    )


def _done(turn: Turn) -> dict[str, Any]:
    return {"action": turn.action, "message": turn.text, "queries": turn.queries}


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()
