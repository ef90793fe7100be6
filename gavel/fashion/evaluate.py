"""Evaluating a system: in the assistant's place (AssistantEval), or writing one query for a whole conversation
(QueryGenEval). What comes out is one row a conversation and mode, with its queries, failures and cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gavel.fashion.conversation import Conversation, Replay, converse
from gavel.fashion.goals import joined
from gavel.fashion.parties import QueryWriter, SpeakingAssistant, Voice
from gavel.fashion.scripted import baseline
from gavel.fashion.simulate import Ground, Progress
from gavel.inference.ledger import Ledger
from gavel.inference.request import Request
from gavel.inference.settle import Row
from gavel.settings.fashion import SCRIPTED, FashionSystem
from gavel.settings.judging import Prices

ASSISTANT, QUERY = "assistant", "query"
MODES = {
    ASSISTANT: "AssistantEval: the system takes the assistant's place",
    QUERY: "QueryGenEval: the system reads a whole conversation and writes one query",
}


@dataclass(frozen=True)
class Cost:
    """What a run cost: by tokens and list prices, or by the time a machine was busy; `prices` None is unknown."""

    prices: Prices | None
    machine_usd_per_hour: float | None

    def of(self, answers: Sequence[Mapping[str, Any]], seconds: float) -> float | None:
        """US dollars for `answers`, which took `seconds` of a machine.

        None where the server counts no tokens, or nobody has said what they cost.
        """
        hour = self.machine_usd_per_hour
        if hour is None and self.prices is not None:
            hour = self.prices.hour
        if hour is not None:
            return seconds / 3600 * hour
        if self.prices is None:
            return None
        total = 0.0
        for answer in answers:
            if answer["failure"] is not None:
                continue
            read, written = answer["prompt_tokens"], answer["completion_tokens"]
            if read is None or written is None:
                return None
            total += (read * self.prices.prompt + written * self.prices.completion) / 1e6
        return total


def evaluate_system(
    ground: Ground,
    name: str,
    language: str,
    data: Sequence[Conversation],
    ledger: Ledger,
    progress: Progress = lambda _: None,
) -> list[dict[str, Any]]:
    """Evaluate the system `name` on the conversations `data`, which are in `language`.

    Only the split of the settings is used; whole conversations only where the customer tells everything.

    Raises:
        EvaluatorOutage, EvaluatorRefused, BudgetSpent: what was answered is in the ledger.
    """
    system = ground.settings.systems[name]
    own = [c for c in data if c.goal.split == ground.settings.split]
    rows: list[dict[str, Any]] = []
    for mode in system.played:
        if mode == ASSISTANT:
            voice = _voice(ground, system, language, ledger, ground.scripts.assistant)
            played = _in_place(ground, voice, system, language, own, ledger, progress)
        else:
            voice = _voice(ground, system, language, ledger, ground.scripts.query)
            played = _queries(ground, voice, system, [c for c in own if c.all_info])
        # What runs in this process is free.
        priced = system.kind != "model" or voice.prices.model_fields_set
        cost = Cost(voice.prices if priced else None, system.machine_usd_per_hour)
        rows += _rows(name, mode, language, played, cost)
    return rows


def _voice(
    ground: Ground,
    system: FashionSystem,
    language: str,
    ledger: Ledger,
    rule: Callable[[Request], str],
) -> Voice:
    revision = ground.scripts.revision
    if system.kind not in ("model", "scripted"):
        rule, revision = baseline(system.kind, ground.vocabulary)
    return ground.voice(system.evaluator or SCRIPTED, ledger, rule, f"{revision}|{language}")


def _in_place(
    ground: Ground,
    voice: Voice,
    system: FashionSystem,
    language: str,
    data: Sequence[Conversation],
    ledger: Ledger,
    progress: Progress,
) -> list[Conversation]:
    """The conversations with the system in the assistant's place."""
    settings = ground.settings
    assistant = SpeakingAssistant(voice, ground.prompts, system.prompt, language)
    if settings.customer == "live":
        fresh = [Conversation(c.goal, language) for c in data]
        customers = ground.customers(language, ledger)
        limit = settings.turn_limit
    else:
        fresh = [Conversation(c.goal, language, lines=_asked(c)) for c in data]
        customers = dict.fromkeys((c.goal.customer for c in data), Replay())
        limit = max((len(c.lines) for c in fresh), default=0)
    converse(fresh, customers, assistant, ground.shop, limit, progress)
    return fresh


def _asked(conversation: Conversation) -> list[str]:
    """The customer's lines that want an answer: not the closing words."""
    return [turn.customer for turn in conversation.turns if turn.action is not None]


def _queries(
    ground: Ground, voice: Voice, system: FashionSystem, data: Sequence[Conversation]
) -> list[Conversation]:
    """The conversations with the one query that the system writes for each in place of their searches."""
    writer = QueryWriter(voice, ground.prompts, system.prompt)
    written = []
    for conversation, settled in zip(data, writer.queries(data), strict=True):
        turns = [replace(turn, action="message", queries=[]) for turn in conversation.turns]
        if settled.reading.queries and turns:
            turns[-1] = replace(turns[-1], action="search", queries=settled.reading.queries)
        own = Conversation(conversation.goal, conversation.language, turns, conversation.outcome)
        own.note(settled, own.failures)
        own.answers += settled.answers
        written.append(own)
    return written


def _rows(
    name: str, mode: str, language: str, played: Sequence[Conversation], cost: Cost
) -> list[dict[str, Any]]:
    paid = _paid(played)
    busy = _busy([answer for answers in paid for answer in answers])
    latency = sum(answer["latency_ms"] or 0.0 for answers in paid for answer in answers)
    rows = []
    for c, answers in zip(played, paid, strict=True):
        if not c.searches() and c.outcome != "customer_broke":
            c.failures["no_query"] = max(1, c.failures["no_query"])
        own = sum(answer["latency_ms"] or 0.0 for answer in answers)
        seconds = busy * own / latency if latency else 0.0
        rows.append(
            {
                "system": name,
                "language": language,
                "mode": mode,
                "id": c.goal.id,
                "goal_kind": c.goal.kind,
                "goal": c.goal.text,
                "properties": joined(c.goal.properties),
                "theme": c.goal.theme,
                "customer_name": c.goal.customer,
                "searches": c.searches(),
                "outcome": c.outcome,
                "turns": len(c.turns),
                "failures": sorted(c.failures.elements()),
                "requests": len(answers),
                "prompt_tokens": _total(answers, "prompt_tokens"),
                "completion_tokens": _total(answers, "completion_tokens"),
                "seconds": seconds,
                "cost_usd": cost.of(answers, seconds),
            }
        )
    return rows


def _paid(played: Sequence[Conversation]) -> list[list[Row]]:
    """The answers of each conversation, one that several share with the first of them: it was asked for once."""
    seen: set[tuple[str, int]] = set()
    paid: list[list[Row]] = []
    for conversation in played:
        own = []
        for answer in conversation.answers:
            key = answer["request_hash"], answer["attempt"]
            if key not in seen:
                seen.add(key)
                own.append(answer)
        paid.append(own)
    return paid


def _total(answers: Sequence[Row], column: str) -> int | None:
    """Tokens over all answers; None where the server did not count."""
    counts = [answer[column] for answer in answers if answer["failure"] is None]
    return None if any(count is None for count in counts) else sum(counts)


def _busy(answers: Sequence[Mapping[str, Any]]) -> float:
    """Seconds in which at least one of `answers` was under way: the machine time of a run, pauses left out."""
    spans = sorted(
        (end - (answer["latency_ms"] or 0.0) / 1e3, end)
        for answer in answers
        for end in [answer["answered_at"].timestamp()]
    )
    total, until = 0.0, float("-inf")
    for start, end in spans:
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total
