"""DSTC8 Track 1: success, book rate, inform precision, recall and F1, return and turns, from acts.

Two named definitions (Li et al. 2020, "Results of the Multi-Domain Task-Completion Dialog
Challenge"; Zhu et al. 2020, "ConvLab-2", arXiv 2002.04793, and the evaluators published with them):

- `dstc8`: the evaluator of the challenge's time. Success is book rate 1 and inform recall 1, where one
  of the two may be undefined.
- `convlab2`: the later one, which judges values more tolerantly, counts the name when booking, and
  besides wants every domain's constraints and answered requests to have a database hit that, where
  something was booked, includes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gavel.dialogue.acts import Act, ActDialogue, ActGoal, ActPredictions
from gavel.dialogue.corpus import database_folder, fingerprint, read_json
from gavel.dialogue.fuzzy import partial_ratio
from gavel.dialogue.inform import Failure
from gavel.errors import CorpusError

MOST_TURNS = 40
"""A dialogue is cut after as many turns."""

SUCCEEDED, FAILED = 80, -40
"""What the end of a dialogue adds to its return; each turn takes one."""

_ANSWERS = {
    **{"attraction": "addr=address area fee=entrance_fee name phone post=postcode type"},
    "restaurant": "addr=address area food name phone post=postcode price=pricerange",
    "hotel": "addr=address area internet parking name phone post=postcode price=pricerange stars type",
    "train": "id=trainID arrive=arriveBy day depart=departure dest=destination time=duration "
    "leave=leaveAt ticket=price",
    "taxi": "car=car_type phone",
    "hospital": "post=postcode phone addr=address department",
    "police": "post=postcode phone addr=address",
}
SLOTS: Mapping[str, Mapping[str, str]] = {
    domain: {
        short: (long or short).replace("_", " ")
        for short, _, long in (name.partition("=") for name in names.split())
    }
    for domain, names in _ANSWERS.items()
}
"""For each domain, the slots of dialogue acts and the names that goals and databases have for them."""

_INFORMING = {"inform", "recommend", "offerbook", "offerbooked"}
# Only what has the same name in acts and goals: so the evaluator, which compares the two.
_UNASKED = {
    **{"attraction": {"phone", "area", "type"}, "restaurant": {"phone", "area", "food"}},
    "train": set[str](),
    "hotel": {"phone", "internet", "parking", "area", "type", "stars"},
    **{"taxi": {"phone"}, "hospital": {"phone"}, "police": {"phone"}},
}
_NO_VALUE = {"", "dont care", "not mentioned", "don't care", "dontcare", "do n't care"}
_BOOKED_BY_REFERENCE = ("hotel", "restaurant", "train")
_NO_ROW = -1  # a taxi is booked, and has no row
_LIKENESS = 60
_DAYS = {"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}
_AREAS = {"centre", "east", "south", "west", "north"}
_PRICES = {"cheap", "expensive", "moderate", "free"}

_NOTHING = ActGoal({}, {}, {})

Rows = Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True)
class ActDatabase:
    """The entities of each domain in the order that booking references count them."""

    rows: Rows
    fingerprint: str


@dataclass(frozen=True)
class Definition:
    """One way to judge: what is a well-formed value, and what success takes besides."""

    is_well_formed: Callable[[str, str, str], bool]
    uncounted_when_booking: frozenset[str]
    needs_database_hit: bool


@dataclass
class ActOutcome:
    """The verdict on one dialogue; None is undefined: nothing to book, nothing asked."""

    book: float | None
    precision: float | None
    recall: float | None
    f1: float | None
    success: bool
    turns: int
    failures: list[Failure] = field(default_factory=list)

    @property
    def reward(self) -> int:
        """The return: -1 a turn, and at the end 80 for success or -40."""
        return (SUCCEEDED if self.success else FAILED) - self.turns


def load_act_database(folder: Path, otherwise: Path) -> ActDatabase:
    """The databases in `folder`, and those it lacks from `otherwise`.

    Raises:
        CorpusError: restaurant, hotel, attraction or train is in neither.
    """
    rows, files = {}, []
    places = [database_folder(folder), database_folder(otherwise)]
    for domain in ("restaurant", "hotel", "attraction", "train", "hospital", "police"):
        names = (f"{domain}_db.json", f"{domain}.json")
        path = next((p for place in places for n in names if (p := place / n).exists()), None)
        if path is not None:
            rows[domain] = read_json(path)
            files.append(path)
        elif domain not in ("hospital", "police"):
            raise CorpusError(f"neither {places[0]} nor {places[1]} holds {names[0]} or {names[1]}")
    return ActDatabase(rows, fingerprint(files))


def judge_acts(dialogue: ActDialogue, rows: Rows, definition: Definition) -> ActOutcome:
    """The verdict on one dialogue, cut after 40 turns."""
    exchanges = dialogue.exchanges[:MOST_TURNS]
    booked = _bookings(dialogue, rows)
    failures: list[Failure] = []
    rates = []
    for domain, goal in dialogue.goal.items():
        rate = _book_rate(domain, goal, booked.get(domain), rows, definition)
        if rate is not None:
            rates.append(rate)
            if rate < 1:
                told = "nothing was booked" if domain not in booked else f"book rate {rate:.2f}"
                failures.append(Failure(domain, "book_failed", detail=told))
    book = sum(rates) / len(rates) if rates else None
    said = [act for exchange in exchanges for act in exchange.system]
    answers, malformed = _answers(said, definition)
    precision, recall, f1 = _inform(dialogue.goal, answers, malformed, failures)
    success = (book, recall) in ((1, 1), (1, None), (None, 1))
    if book is None and recall is None:
        failures.append(Failure(None, "nothing_to_judge"))
    if definition.needs_database_hit:
        for domain, goal in dialogue.goal.items():
            if not _has_hit(domain, goal, answers.get(domain, {}), booked.get(domain), rows):
                failures.append(Failure(domain, "goal_unmatched"))
                success = False
    return ActOutcome(book, precision, recall, f1, success, len(exchanges), failures)


def _bookings(dialogue: ActDialogue, rows: Rows) -> dict[str, int]:
    """What was booked in each domain: the number of its database's row; a taxi has none.

    The first reference of eight digits that is a row's number counts. A booking act names no
    domain, so it is of the one spoken of last, and of none before any was.
    """
    booked: dict[str, int] = {}
    spoken_of = ""
    for exchange in dialogue.exchanges[:MOST_TURNS]:
        for act in exchange.user:
            spoken_of = act.domain if act.domain in SLOTS else spoken_of
        for act in exchange.system:
            spoken_of = act.domain if act.domain in SLOTS else spoken_of
            domain = _books(act, spoken_of)
            if domain == "taxi":
                booked["taxi"] = _NO_ROW
            elif domain is not None and _is_row(act.value, rows[domain]):
                booked.setdefault(domain, int(act.value))
    return booked


def _is_row(reference: str, rows: Sequence[Any]) -> bool:
    return bool(re.fullmatch(r"[0-9]{8}", reference)) and int(reference) < len(rows)


def _books(act: Act, spoken_of: str) -> str | None:
    """The domain in which `act` gives a booking's reference, or a taxi's car."""
    what = (act.domain, act.intent, act.slot)
    if what == ("booking", "book", "ref") and spoken_of in _BOOKED_BY_REFERENCE:
        return spoken_of
    if what in (("train", "offerbooked", "ref"), ("train", "inform", "ref")):
        return "train"
    return "taxi" if what == ("taxi", "inform", "car") else None


def _book_rate(
    domain: str, goal: ActGoal, row: int | None, rows: Rows, definition: Definition
) -> float | None:
    """Matching constraints over counted ones; None where nothing is to be booked or to be counted."""
    if not goal.book or not goal.info or domain not in SLOTS:
        return None
    if row is None:
        return 0.0
    if domain == "taxi":
        return 1.0
    counted = [slot for slot in goal.info if slot not in definition.uncounted_when_booking]
    if not counted:
        return None
    entity = rows[domain][row]
    return sum(_fits(slot, goal.info[slot], entity) for slot in counted) / len(counted)


def _fits(slot: str, wanted: str, entity: Mapping[str, Any]) -> bool:
    """Whether a booked entity satisfies one constraint; a time that cannot be read does."""
    held = str(entity.get(slot, ""))
    if slot in ("leaveAt", "arriveBy"):
        times = _clock(wanted), _clock(held)
        if times[0] is None or times[1] is None:
            return True
        return times[0] <= times[1] if slot == "leaveAt" else times[0] >= times[1]
    return wanted.strip() == held.strip()


def _clock(time: str) -> int | None:
    found = re.match(r"\s*(\d+)\s*:\s*(\d+)\s*(?::|$)", time)
    return int(found[1]) * 100 + int(found[2]) if found else None


def _answers(said: Sequence[Act], definition: Definition) -> tuple[dict[str, dict[str, str]], int]:
    """The last well-formed value of each slot that the system informed of, and the malformed ones' count."""
    answers: dict[str, dict[str, str]] = {}
    malformed = 0
    for act in said:
        slot = SLOTS.get(act.domain, {}).get(act.slot)
        if slot is None or act.intent not in _INFORMING or act.value.strip() in _NO_VALUE:
            continue
        if definition.is_well_formed(act.domain, slot, act.value):
            answers.setdefault(act.domain, {})[slot] = act.value
        else:
            malformed += 1
    return answers, malformed


def _inform(
    goal: Mapping[str, ActGoal],
    answers: Mapping[str, Mapping[str, str]],
    malformed: int,
    failures: list[Failure],
) -> tuple[float | None, float | None, float | None]:
    """Precision, recall and F1 of the answers to requests; None where nothing was asked.

    A malformed value is a false positive each time it is said; so is an answer that nobody asked
    for, unless it repeats a constraint.
    """
    right = missed = 0
    spurious = malformed
    for domain in SLOTS:
        wanted = goal.get(domain, _NOTHING)
        given = answers.get(domain, {})
        for slot in wanted.requests:
            if slot in given:
                right += 1
            else:
                missed += 1
                failures.append(Failure(domain, "not_provided", slot))
        spurious += sum(
            slot in _UNASKED[domain] and slot not in wanted.requests and slot not in wanted.info
            for slot in given
        )
    if not right + missed:
        return None, None, None
    recall = right / (right + missed)
    if not right:
        return 0.0, recall, 0.0
    precision = right / (right + spurious)
    return precision, recall, 2 * precision * recall / (precision + recall)


def _has_hit(
    domain: str, goal: ActGoal, answers: Mapping[str, str], booked: int | None, rows: Rows
) -> bool:
    """Whether the database has an entity of the goal's constraints and answers, the booked one if any.

    Constraints are equalities, answers alike by a partial ratio of 60. The answer is the one that the
    goal holds, otherwise what the system said.
    """
    if domain in ("taxi", "police") or domain not in SLOTS or domain not in rows:
        return True
    wanted = dict(goal.info)
    if domain == "hospital":
        department = wanted.get("department", "").strip().lower()
        return any(
            not department or str(row.get("department", "")).lower() == department
            for row in rows[domain]
        )
    heard = {
        slot: answer
        for slot, told in goal.requests.items()
        if (answer := told or answers.get(slot)) is not None
    }
    must_be = booked if goal.book and booked is not None else None
    return any(
        _satisfies(row, wanted, heard)
        for number, row in enumerate(rows[domain])
        if must_be is None or number == must_be
    )


def _satisfies(row: Mapping[str, Any], wanted: Mapping[str, str], heard: Mapping[str, str]) -> bool:
    return all(
        _alike(row, slot, value, likeness)
        for slots, likeness in ((wanted, None), (heard, _LIKENESS))
        for slot, value in slots.items()
    )


def _alike(row: Mapping[str, Any], slot: str, value: str, likeness: int | None) -> bool:
    held = row.get(slot)
    if value in _NO_VALUE or not isinstance(held, str):
        return True
    if slot in ("leaveAt", "arriveBy"):
        return _fits(slot, value, row)
    own, theirs = value.strip().lower(), held.strip().lower()
    if slot == "area" and own == "center":
        own = "centre"
    if theirs == "?":
        return True
    return own == theirs if likeness is None else partial_ratio(own, theirs) >= likeness


def _well_formed_dstc8(domain: str, slot: str, value: str) -> bool:
    """Whether a value is of its slot's kind, by the rules of the challenge's time."""
    match slot:
        case "phone":
            return bool(re.match(r"\d{11}$", value))
        case "price" | "entrance fee":
            return "pound" in value or value in ("free", "?")
        case "pricerange":
            return value in _PRICES
        case "postcode":
            return bool(re.match(r"cb\d{2,3}[a-z]{2}$", value))
        case "internet" | "parking":
            return value in ("yes", "no")
        case "arriveBy" | "leaveAt":
            return bool(re.match(r"(([01]\d|2[0-3]):([0-5]\d)|24:00)$", value))
    return _well_formed_anyway(slot, value)


def _well_formed_convlab2(domain: str, slot: str, value: str) -> bool:
    """The same by the later rules."""
    match slot:
        case "phone":
            return domain == "restaurant" or bool(re.match(r"\d{11}$", value))
        case "price":
            return "pound" in value
        case "pricerange":
            return domain == "attraction" or value in _PRICES
        case "postcode":
            return value == "pe296fl" or bool(re.match(r"cb\d{1,3}[a-z]{2,3}$", value))
        case "internet" | "parking":
            return value in ("yes", "no", "none")
        case "arriveBy" | "leaveAt":
            return bool(re.match(r"(([01]\d|2[0-4]):([0-5]\d)|24:00)$", value))
    return _well_formed_anyway(slot, value)


def _well_formed_anyway(slot: str, value: str) -> bool:
    match slot:
        case "area":
            return value.lower() in _AREAS
        case "day":
            return value.lower() in _DAYS
        case "duration":
            return "minute" in value
        case "stars":
            return bool(re.match(r"\d$", value))
        case "trainID":
            return bool(re.match(r"tr\d{4}$", value.lower()))
    return True


DEFINITIONS = {
    "dstc8": Definition(_well_formed_dstc8, frozenset(("destination", "departure", "name")), False),
    "convlab2": Definition(_well_formed_convlab2, frozenset(("destination", "departure")), True),
}
"""The two definitions, by the reading that rows of results name."""


def evaluate_acts(predictions: ActPredictions, database: ActDatabase) -> list[dict[str, Any]]:
    """Rows of every dialogue under both definitions."""
    return [
        {
            "system": predictions.system,
            "track": "dstc8",
            "reading": name,
            "dialogue_id": dialogue_id,
            "missing": False,
            "success": outcome.success,
            "book": outcome.book,
            "precision": outcome.precision,
            "recall": outcome.recall,
            "f1": outcome.f1,
            "turns": outcome.turns,
            "return": outcome.reward,
            "failures": [dict(vars(failure)) for failure in outcome.failures],
        }
        for name, definition in DEFINITIONS.items()
        for dialogue_id, dialogue in predictions.dialogues.items()
        for outcome in [judge_acts(dialogue, database.rows, definition)]
    ]


def signature(predictions: ActPredictions, database: ActDatabase, reading: str) -> str:
    """Everything that determines the figures, in sacrebleu's manner."""
    return (
        f"dstc8|v:1|definition:{reading}|database:{database.fingerprint}"
        f"|predictions:{predictions.fingerprint}|turns:{MOST_TURNS}|reward:-1/{SUCCEEDED}/{FAILED}"
    )
