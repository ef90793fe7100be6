"""The DSTC8 evaluation on dialogues made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from gavel.dialogue.acts import Act, ActDialogue, ActGoal, Exchange
from gavel.dialogue.dstc8 import DEFINITIONS, ActOutcome, judge_acts

ROWS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "restaurant": [
        {"name": "copper spoon", "food": "italian", "area": "centre", "phone": "01555100201"},
        {"name": "harbour noodles", "food": "chinese", "area": "north", "phone": "01555100202"},
    ],
    "hotel": [{"name": "lindenhof", "area": "north"}],
    "attraction": [{"name": "museum", "area": "centre"}],
    "train": [
        {"departure": "ashwick", "destination": "lindhafen", "day": "monday", "leaveAt": "08:10"},
        {"departure": "lindhafen", "destination": "ashwick", "day": "friday", "leaveAt": "17:20"},
    ],
    "hospital": [{"department": "eyes", "phone": "1"}],
    "police": [{"name": "station"}],
}
BOOK = {"people": "2"}


def act(said: str) -> Act:
    domain, intent, slot, value = said.split(" ", 3)
    return Act(domain, intent, slot, value)


def judged(
    goal: Mapping[str, ActGoal],
    *exchanges: tuple[Sequence[str], Sequence[str]],
    definition: str = "dstc8",
) -> ActOutcome:
    dialogue = ActDialogue(
        goal, [Exchange([*map(act, user)], [*map(act, system)]) for user, system in exchanges]
    )
    return judge_acts(dialogue, ROWS, DEFINITIONS[definition])


def restaurant(
    info: Mapping[str, str] | None = None, asked: Sequence[str] = (), book: bool = False
) -> dict[str, ActGoal]:
    return {"restaurant": ActGoal(info or {}, BOOK if book else {}, dict.fromkeys(asked))}


def test_served_wholly() -> None:
    outcome = judged(
        restaurant({"food": "italian", "area": "centre"}, ["phone"], book=True),
        (["restaurant inform food italian"], ["restaurant inform phone 01555100201"]),
        ([], ["booking book ref 00000000"]),
    )
    assert (outcome.book, outcome.recall, outcome.precision, outcome.f1) == (1, 1, 1, 1)
    assert outcome.success
    assert outcome.reward == 80 - 2
    assert outcome.failures == []


def test_no_requestables_and_no_booking_are_undefined() -> None:
    booked = ([], ["restaurant inform food italian", "booking book ref 00000000"])
    no_requests = judged(restaurant({"food": "italian"}, book=True), booked)
    assert (no_requests.book, no_requests.recall, no_requests.success) == (1, None, True)
    phone = ([], ["restaurant inform phone 01555100201"])
    no_booking = judged(restaurant({"food": "italian"}, ["phone"]), phone)
    assert (no_booking.book, no_booking.recall, no_booking.success) == (None, 1, True)
    neither = judged(restaurant({"food": "italian"}), phone)
    assert (neither.book, neither.recall, neither.success) == (None, None, False)
    assert [failure.reason for failure in neither.failures] == ["nothing_to_judge"]
    assert neither.reward == -40 - 1


def test_a_reference_before_any_domain_and_one_that_is_no_row() -> None:
    goal = restaurant({"food": "italian"}, book=True)
    early = judged(goal, ([], ["booking book ref 00000000"]))
    assert (early.book, early.success) == (0, False)
    for reference in ("00000002", "0000000", "ABCDEFGH"):
        said = ["restaurant inform food italian", f"booking book ref {reference}"]
        assert judged(goal, ([], said)).book == 0
    # The first that is a row counts, also where the customer named the domain.
    twice = ["booking book ref 00000001", "booking book ref 00000000"]
    assert judged(goal, (["restaurant inform food italian"], twice)).book == 0


def test_book_rate_counts_matching_constraints() -> None:
    said = ([], ["restaurant inform food italian", "booking book ref 00000001"])
    half = judged(restaurant({"food": "italian", "area": "north"}, book=True), said)
    assert (half.book, half.success) == (0.5, False)
    named = {"name": "copper spoon", "area": "north"}
    assert judged(restaurant(named, book=True), said).book == 1
    assert judged(restaurant(named, book=True), said, definition="convlab2").book == 0.5
    assert judged(restaurant({"name": "copper spoon"}, book=True), said).book is None


def test_a_train_with_wrong_departure_and_destination() -> None:
    wanted = {"departure": "ashwick", "destination": "lindhafen", "day": "friday"}
    goal = {"train": ActGoal({**wanted, "leaveAt": "17:00"}, BOOK, {})}
    said = ([], ["train offerbooked ref 00000001"])
    assert judged(goal, said).book == 1  # departure and destination are not counted
    assert not judged(goal, said, definition="convlab2").success  # but no such train is there
    late = {"train": ActGoal({**wanted, "leaveAt": "18:00"}, BOOK, {})}
    assert judged(late, said).book == 0.5
    unreadable = {"train": ActGoal({**wanted, "leaveAt": "soon"}, BOOK, {})}
    assert judged(unreadable, said).book == 1


def test_a_taxi_is_booked_by_its_car() -> None:
    goal = {"taxi": ActGoal({"leaveAt": "17:00"}, BOOK, {"phone": None})}
    said = ["taxi inform car blue skoda", "taxi inform phone 01234567890"]
    assert judged(goal, ([], said)).success
    assert judged(goal, ([], said[1:])).book == 0


def test_informing_what_nobody_asked_and_malformed_values() -> None:
    goal = restaurant({"area": "centre"}, ["phone"])
    said = [
        "restaurant inform phone 12",  # malformed: false positive, and not informed
        "restaurant inform food italian",  # unasked: false positive
        "restaurant inform area centre",  # repeats a constraint
        "restaurant inform addr somewhere",  # unasked, but of another name in goals
        "restaurant request phone 01555100201",  # no informing
        "restaurant inform phone dontcare",  # no value
    ]
    outcome = judged(goal, ([], said))
    assert (outcome.precision, outcome.recall, outcome.f1) == (0, 0, 0)
    assert [(f.reason, f.slot) for f in outcome.failures] == [("not_provided", "phone")]
    outcome = judged(goal, ([], [*said, "restaurant recommend phone 01555100201"]))
    assert outcome.recall == 1
    assert outcome.precision == pytest.approx(1 / 3)


def test_police_and_hospital() -> None:
    goal = {
        "police": ActGoal({}, {}, {"address": None}),
        "hospital": ActGoal({"department": "eyes"}, {}, {"phone": None}),
    }
    said = ["police inform addr parkside", "hospital inform phone 01555100299"]
    assert judged(goal, ([], said)).success
    assert judged(goal, ([], said), definition="convlab2").success
    nowhere = {"hospital": ActGoal({"department": "ears"}, {}, {"phone": None})}
    assert judged(nowhere, ([], said)).success
    assert not judged(nowhere, ([], said), definition="convlab2").success


def test_dontcare_in_a_goal() -> None:
    goal = restaurant({"food": "italian", "area": "dontcare"}, ["phone"])
    said = ([], ["restaurant inform phone 01555100201"])
    assert judged(goal, said, definition="convlab2").success


def test_an_answer_that_no_entity_gives_has_no_hit_in_the_later_rule() -> None:
    goal = restaurant({"food": "italian"}, ["phone"])
    said = ([], ["restaurant inform phone 99999999999"])
    assert judged(goal, said).success
    later = judged(goal, said, definition="convlab2")
    assert not later.success
    assert "goal_unmatched" in [failure.reason for failure in later.failures]


def test_a_dialogue_is_cut_after_forty_turns() -> None:
    goal = restaurant({"food": "italian"}, ["phone"])
    nothing: tuple[list[str], list[str]] = ([], [])
    late = [nothing] * 40 + [([], ["restaurant inform phone 01555100201"])]
    outcome = judged(goal, *late)
    assert (outcome.turns, outcome.success, outcome.reward) == (40, False, -80)
    assert judged(goal, *late[1:]).reward == 40
