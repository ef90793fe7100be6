"""Inform and Success of one dialogue, with the reason wherever one fails.

Inform: in every domain of the goal, what the system offered last satisfies the customer. Success:
besides, everything the customer asked for was given. (Budzianowski et al. 2018, as made precise by
Nekvinda and Dušek 2021, arXiv 2106.05555.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gavel.dialogue.corpus import DomainGoal, Goal, State
from gavel.dialogue.database import SEARCHED, Database, Entities, OneLetter, one_letter_slots

PROVIDED = ("PHONE", "ADDRESS", "POST", "REFERENCE", "TRAINID")
"""What a customer may ask for, by the token that answers it."""


class Seen(NamedTuple):
    """What the metrics see of a turn: the normalised response, the state, the active domains."""

    response: str
    state: State
    domains: Sequence[str]


@dataclass(frozen=True)
class Failure:
    """Why a dialogue failed: `reason` is a key of REASONS; turns count from 1."""

    domain: str | None
    reason: str
    slot: str | None = None
    turn: int | None = None
    detail: str | None = None


REASONS = {
    "missing_dialogue": "the prediction file lacks the dialogue",
    "nothing_offered": "no turn names an entity while the domain is active",
    "no_entity_found": "the state at the offer matches nothing in the database",
    "wrong_entity": "what was offered does not satisfy the goal",
    "one_letter_value": "the state at the offer names something by a single letter",
    "not_provided": "what the customer asked for was never given",
    "reference_unbooked": "a reference was given, but not where the gold dialogue had booked",
    "book_failed": "the booked entity does not satisfy the goal, or nothing was booked",
    "goal_unmatched": "the final goal has no entity in the database, or the booked one is none of them",
    "nothing_to_judge": "neither a booking nor a request makes up the goal",
}
"""What each reason of a failure means, in a person's words."""


@dataclass
class Outcome:
    """The verdict on one dialogue; `domains` has Inform of each domain of the goal."""

    inform: bool
    success: bool
    domains: dict[str, bool]
    failures: list[Failure] = field(default_factory=list)


@dataclass
class _Progress:
    """What the system has done in one domain so far."""

    offered: Entities = frozenset()
    offered_at: int | None = None
    given: dict[str, int] = field(default_factory=dict)
    unbooked_reference: int | None = None
    one_letter_at: int | None = None


def judge(
    goal: Goal,
    booked: Sequence[frozenset[str]],
    turns: Sequence[Seen],
    database: Database,
    one_letter: OneLetter,
) -> Outcome:
    """Inform and Success of the `turns`; `booked` are the domains that the gold dialogue had booked.

    An offer is the database's answer to the state of a turn whose response names an entity (or
    a train id) in an active domain. A later offer replaces it only where the old set is no subset of
    the new: repeating less precisely what stands is no change of mind.
    """
    progress = {domain: _Progress() for domain in goal}
    for number, (turn, had_booked) in enumerate(zip(turns, booked, strict=False), 1):
        for domain in goal:
            if domain in turn.domains:
                _follow(progress[domain], domain, number, turn, had_booked, database, one_letter)
    outcome = Outcome(True, True, {})
    for domain, wanted in goal.items():
        failures = _inform(domain, wanted, progress[domain], database, one_letter)
        outcome.domains[domain] = not failures
        outcome.failures += failures
        missing = _missing(domain, wanted, progress[domain])
        outcome.failures += missing
        outcome.success &= not missing
    outcome.inform = all(outcome.domains.values())
    outcome.success &= outcome.inform
    return outcome


def _follow(
    progress: _Progress,
    domain: str,
    number: int,
    turn: Seen,
    had_booked: frozenset[str],
    database: Database,
    one_letter: OneLetter,
) -> None:
    if domain in SEARCHED and ("TRAINID" if domain == "train" else "NAME") in turn.response:
        constraints = turn.state.get(domain)
        found: Entities = (
            frozenset() if constraints is None else database.query(domain, constraints, one_letter)
        )
        if not progress.offered or not progress.offered <= found:
            progress.offered, progress.offered_at = found, number
            by_letter = one_letter == "equal" and bool(one_letter_slots(domain, constraints or {}))
            progress.one_letter_at = number if by_letter else None
    for token in PROVIDED:
        if token in turn.response:
            if token == "REFERENCE" and domain not in had_booked:
                progress.unbooked_reference = number
            else:
                progress.given.setdefault(token, number)


def _inform(
    domain: str, wanted: DomainGoal, progress: _Progress, database: Database, one_letter: OneLetter
) -> list[Failure]:
    """Why what was offered in `domain` does not match its goal; empty where it does.

    Taxi, police and hospital have nothing to offer; a goal that gives the name leaves nothing to
    find; a train that nobody asked the id of need not be named, but one that is named must fit.
    """
    if domain not in SEARCHED or "name" in wanted.informable:
        return []
    if progress.one_letter_at is not None:
        return [Failure(domain, "one_letter_value", turn=progress.one_letter_at)]
    if domain == "train" and not progress.offered and "TRAINID" not in wanted.requestable:
        return []
    if progress.offered_at is None:
        return [Failure(domain, "nothing_offered")]
    if not progress.offered:
        return [Failure(domain, "no_entity_found", turn=progress.offered_at)]
    if progress.offered <= database.query(domain, wanted.informable, one_letter):
        return []
    wrong = [
        slot
        for slot, value in wanted.informable.items()
        if not progress.offered <= database.query(domain, {slot: value}, one_letter)
    ]
    count = len(progress.offered)
    return [
        Failure(
            domain,
            "wrong_entity",
            slot,
            progress.offered_at,
            f"goal {slot} is {wanted.informable[slot]!r}; {count:,} offered, some against it",
        )
        for slot in wrong
    ] or [Failure(domain, "wrong_entity", turn=progress.offered_at)]


def _missing(domain: str, wanted: DomainGoal, progress: _Progress) -> list[Failure]:
    failures = []
    for token in wanted.requestable:
        if token in progress.given:
            continue
        if token == "REFERENCE" and progress.unbooked_reference is not None:
            failures.append(
                Failure(domain, "reference_unbooked", token, progress.unbooked_reference)
            )
        else:
            failures.append(Failure(domain, "not_provided", token))
    return failures
