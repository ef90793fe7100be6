"""Inform, Success and the readings on dialogues made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from gavel.dialogue.corpus import Corpus
from gavel.dialogue.figures import FIGURES, value
from gavel.dialogue.multiwoz import Evaluation, evaluate
from gavel.dialogue.predictions import Turn
from gavel.errors import PredictionError
from gavel.settings.dialogue import DialogueOptions

from .conftest import corpus_of, goal, predictions_of, turn

STATE = {"restaurant": {"food": "italian", "area": "centre"}}


def outcome(
    corpus: Corpus, *turns: Turn, reading: str = "strict", **options: Any
) -> dict[str, Any]:
    """The row of the only dialogue, `d`."""
    evaluation = evaluate(predictions_of(d=turns), corpus, DialogueOptions(**options))
    return next(row for row in evaluation.rows if row["reading"] == reading)


def reasons(row: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [(f["domain"], f["reason"], f["slot"], f["turn"]) for f in row["failures"]]


def served(row: dict[str, Any]) -> tuple[bool, bool]:
    return row["inform"], row["success"]


def test_no_requestables() -> None:
    corpus = corpus_of({"d": goal(restaurant=({"food": "italian", "area": "centre"}, []))})
    assert served(outcome(corpus, turn("[value_name] it is", STATE))) == (True, True)


def test_what_was_offered_must_lie_within_the_goal() -> None:
    corpus = corpus_of({"d": goal(restaurant=({"food": "italian", "area": "centre"}, []))})
    row = outcome(corpus, turn("[value_name]", {"restaurant": {"food": "italian"}}))
    assert served(row) == (False, False)
    assert reasons(row) == [("restaurant", "wrong_entity", "area", 1)]


def test_an_offer_is_replaced_only_where_the_old_is_no_subset_of_the_new() -> None:
    corpus = corpus_of({"d": goal(restaurant=({"food": "italian", "area": "centre"}, []))}, 2)
    wide, other = {"restaurant": {"food": "italian"}}, {"restaurant": {"food": "chinese"}}
    assert outcome(corpus, turn("[value_name]", STATE), turn("[value_name]", wide))["inform"]
    row = outcome(corpus, turn("[value_name]", STATE), turn("[value_name]", other))
    assert not row["inform"]
    assert ("restaurant", "wrong_entity", "food", 2) in reasons(row)


def test_nothing_offered_and_nothing_found() -> None:
    corpus = corpus_of({"d": goal(restaurant=({"food": "italian"}, []))})
    assert reasons(outcome(corpus, turn("hello", STATE))) == [
        ("restaurant", "nothing_offered", None, None)
    ]
    nowhere = {"restaurant": {"food": "italian", "area": "south"}}
    assert reasons(outcome(corpus, turn("[value_name]", nowhere))) == [
        ("restaurant", "no_entity_found", None, 1)
    ]


def test_a_goal_with_a_name_leaves_nothing_to_find() -> None:
    corpus = corpus_of({"d": goal(restaurant=({"name": "casa lindora"}, ["PHONE"]))})
    row = outcome(corpus, turn("call [value_phone]", STATE))
    assert served(row) == (True, True)
    assert served(outcome(corpus, turn("call them", STATE))) == (True, False)


@pytest.mark.parametrize("domain", ["police", "hospital", "taxi"])
def test_domains_without_entities_match_by_themselves(domain: str) -> None:
    corpus = corpus_of({"d": goal(**{domain: ({}, ["PHONE"])})})
    state = {domain: {"department": "x"}}
    assert served(outcome(corpus, turn(f"[{domain}_phone]", state))) == (True, True)
    assert served(outcome(corpus, turn("no", state))) == (True, False)


def test_dontcare_in_a_goal_and_in_a_state() -> None:
    corpus = corpus_of({"d": goal(restaurant=({"food": "italian", "area": "dontcare"}, []))})
    state = {"restaurant": {"food": "italian", "area": "do n't care"}}
    assert outcome(corpus, turn("[value_name]", state))["inform"]


def test_a_train_with_wrong_departure_and_destination() -> None:
    wanted = {"departure": "ashwick", "destination": "lindhafen", "day": "monday"}
    corpus = corpus_of({"d": goal(train=(wanted, []))})
    swapped = {"departure": "lindhafen", "destination": "ashwick", "day": "friday"}
    row = outcome(corpus, turn("[train_id]", {"train": swapped}))
    assert not row["inform"]
    assert {slot for _, _, slot, _ in reasons(row)} == {"departure", "destination", "day"}
    assert outcome(corpus, turn("[train_id]", {"train": wanted}))["inform"]


def test_a_train_nobody_asked_the_id_of_need_not_be_named() -> None:
    wanted = {"departure": "ashwick", "destination": "lindhafen"}
    unasked = corpus_of({"d": goal(train=(wanted, []))})
    asked = corpus_of({"d": goal(train=(wanted, ["TRAINID"]))})
    assert outcome(unasked, turn("one leaves soon", {"train": wanted}))["inform"]
    assert not outcome(asked, turn("one leaves soon", {"train": wanted}))["inform"]


def test_arrive_and_leave_are_bounds() -> None:
    wanted = {"departure": "ashwick", "arrive": "09:00"}
    corpus = corpus_of({"d": goal(train=(wanted, ["TRAINID"]))})
    row = outcome(corpus, turn("[value_id]", {"train": {"departure": "ashwick"}}))
    assert reasons(row) == [("train", "wrong_entity", "arrive", 1)]
    exact = {"train": {"departure": "ashwick", "arriveBy": "9:00 am"}}
    assert served(outcome(corpus, turn("[value_id]", exact))) == (True, True)


def test_a_reference_counts_where_the_gold_dialogue_had_booked() -> None:
    goals = {"d": goal(restaurant=({"food": "italian", "area": "centre"}, ["REFERENCE"]))}
    said = [turn("[value_name] [value_reference]", STATE), turn("bye", STATE)]
    booked = corpus_of(goals, 2, {"d": [["restaurant"], ["restaurant"]]})
    late = corpus_of(goals, 2, {"d": [[], ["restaurant"]]})
    assert outcome(booked, *said)["success"]
    row = outcome(late, *said)
    assert served(row) == (True, False)
    assert reasons(row) == [("restaurant", "reference_unbooked", "REFERENCE", 1)]


def test_empty_responses() -> None:
    corpus = corpus_of({"d": goal(restaurant=({"food": "italian"}, ["PHONE"]))})
    row = outcome(corpus, turn("", STATE))
    assert served(row) == (False, False)
    assert row["bleu"] == [0] * 8 + [0, 2]
    assert row["entities"] is None  # saying nothing is not saying it in real names


def test_only_active_domains_count() -> None:
    corpus = corpus_of({"d": goal(restaurant=({"food": "italian", "area": "centre"}, ["PHONE"]))})
    said = "[value_name] [value_phone]"
    given = turn(said, STATE, active_domains=("hotel",))
    assert served(outcome(corpus, given)) == (False, False)
    assert served(outcome(corpus, given, active_domains="state")) == (True, True)
    prefixed = turn("[restaurant_name] [restaurant_phone]", STATE, active_domains=("hotel",))
    assert served(outcome(corpus, prefixed, active_domains="slots")) == (True, True)


def test_unknown_ids_and_turn_counts_are_errors_with_the_ids() -> None:
    corpus = corpus_of({"d": goal(restaurant=({}, []))}, 2)
    with pytest.raises(PredictionError, match="1 dialogues are not in the corpus: stranger"):
        evaluate(predictions_of(stranger=[turn("x", {})]), corpus, DialogueOptions())
    with pytest.raises(PredictionError, match="'d' has 1 turns, not 2"):
        outcome(corpus, turn("x", {}))
    assert outcome(corpus, turn("x", {}), turn_counts="shortest")["dialogue_id"] == "d"


def readings(evaluation: Evaluation) -> dict[str, list[dict[str, Any]]]:
    return {
        reading: [row for row in evaluation.rows if row["reading"] == reading]
        for reading in ("strict", "reference")
    }


def test_a_missing_dialogue_fails_strictly_and_is_left_out_by_the_reference() -> None:
    both = {name: goal(restaurant=({}, [])) for name in ("d", "e")}
    corpus = corpus_of(both)
    found = readings(
        evaluate(predictions_of(d=[turn("[value_name]", STATE)]), corpus, DialogueOptions())
    )
    assert [row["dialogue_id"] for row in found["reference"]] == ["d"]
    missing = found["strict"][1]
    assert (missing["dialogue_id"], missing["missing"], missing["success"]) == ("e", True, False)
    assert missing["failures"][0]["reason"] == "missing_dialogue"
    assert missing["bleu"][-2:] == [0, 2]


def test_every_turn_of_a_missing_dialogue_is_wrong_also_where_nothing_was_asked_yet() -> None:
    both = {name: goal(restaurant=({}, [])) for name in ("d", "e")}
    corpus = corpus_of(both, 3, states={"d": [STATE] * 3, "e": [{}, STATE, STATE]})
    said = [turn("[value_name]", STATE), turn("x", STATE), turn("bye", {})]
    rows = readings(evaluate(predictions_of(d=said), corpus, DialogueOptions()))
    assert rows["strict"][1]["tracking"] == {
        **{"turns": 3, "joint": 0, "right": 0, "spurious": 0, "missed": 4, "one_letter": 0}
    }
    found = {
        reading: [value(f, rows[reading]) for f in FIGURES if f.name in ("joint_goal", "slot_f1")]
        for reading in rows
    }
    # Right are 2 of 6 turns, with 4 slots of 10; of the dialogue that is there 2 of 3, with 4 of 6.
    assert found["strict"] == pytest.approx([100 * 2 / 6, 100 * 2 * 4 / (2 * 4 + 6)])
    assert found["reference"] == pytest.approx([100 * 2 / 3, 100 * 2 * 4 / (2 * 4 + 2)])


def test_a_turn_without_a_state_does_not_switch_the_file_to_gold_states() -> None:
    goals = {"d": goal(restaurant=({"food": "italian", "area": "centre"}, []))}
    corpus = corpus_of(goals, 2, states={"d": [STATE, STATE]})
    wrong = {"restaurant": {"food": "chinese"}}
    said = [turn("[value_name]", wrong), turn("bye")]
    assert not outcome(corpus, *said)["inform"]
    assert outcome(corpus, *said, reading="reference")["inform"]
    assert outcome(corpus, *said, missing_states="gold")["inform"]
    # A file without any state is one of policy optimisation, by either reading.
    row = outcome(corpus, turn("[value_name]"), turn("bye"))
    assert row["inform"]
    assert row["tracking"] is None


def test_a_name_of_one_letter_matches_everything_only_for_the_reference() -> None:
    wanted = {"departure": "ashwick", "destination": "lindhafen"}
    corpus = corpus_of({"d": goal(train=(wanted, []))})
    said = turn("[train_id]", {"train": {**wanted, "departure": "a"}})
    assert outcome(corpus, said, reading="reference")["inform"]
    row = outcome(corpus, said)
    assert reasons(row) == [("train", "one_letter_value", None, 1)]


def test_joint_goal_and_slots() -> None:
    gold = {"restaurant": {"food": "italian", "stars": "8"}}
    corpus = corpus_of({"d": goal(restaurant=({}, []))}, 3, states={"d": [gold, gold, gold]})
    right = {"restaurant": {"food": "italian", "stars": "8"}}
    letter = {"restaurant": {"food": "italian", "stars": "18"}}
    more = {"restaurant": {"food": "italian", "stars": "8", "area": "north"}}
    said = [turn("a", right), turn("b", letter), turn("c", more)]
    strict = outcome(corpus, *said)["tracking"]
    assert strict == {
        **{"turns": 3, "joint": 1, "right": 5, "spurious": 2, "missed": 1, "one_letter": 1}
    }
    assert outcome(corpus, *said, reading="reference")["tracking"]["joint"] == 2


def test_the_signature_names_what_determines_the_figures() -> None:
    corpus = corpus_of({"d": goal(restaurant=({}, []))})
    evaluation = evaluate(predictions_of(d=[turn("x [value_name]", {})]), corpus, DialogueOptions())
    assert (
        "|missing:fail|states:empty|turns:error|oneletter:equal|" in evaluation.signatures["strict"]
    )
    assert "|missing:skip|states:gold|" in evaluation.signatures["reference"]
    assert "tok:13a|smooth:exp" in evaluation.signatures["strict"]
