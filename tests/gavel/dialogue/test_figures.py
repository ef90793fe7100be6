"""Figures, intervals and paired tests; lexicalised responses; the original distributions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gavel.agreement.bootstrap import Resampling
from gavel.dialogue.database import Database
from gavel.dialogue.figures import FIGURES, Figure, compare, estimate, value
from gavel.dialogue.lexical import Lexicon
from gavel.dialogue.loading import load_corpus
from gavel.errors import CorpusError

from .conftest import ROWS


def figure(name: str, track: str = "multiwoz") -> Figure:
    return next(f for f in FIGURES if (f.name, f.track) == (name, track))


def row(inform: bool, success: bool, bleu: list[int] | None = None) -> dict[str, Any]:
    counts = bleu or [4, 3, 2, 1, 4, 3, 2, 1, 4, 4]
    return {"inform": inform, "success": success, "bleu": counts, "tracking": None, "book": None}


def test_combined_goes_to_200() -> None:
    assert value(figure("combined"), [row(True, True)]) == pytest.approx(200)
    assert value(figure("combined"), [row(True, True), row(True, False)]) == pytest.approx(175)


def test_what_is_undefined_is_left_out_and_counted() -> None:
    rows = [row(True, True), {**row(True, True), "book": 0.5}, {**row(True, True), "book": 1.0}]
    found = estimate(figure("book", "dstc8"), rows, Resampling(200))
    assert (found.value, found.n, found.undefined) == (75.0, 2, 1)
    nowhere = estimate(figure("joint_goal"), rows, Resampling(200))
    assert (nowhere.value, nowhere.low, nowhere.n, nowhere.undefined) == (None, None, 0, 3)


def test_an_interval_holds_the_value_and_is_the_same_again() -> None:
    rows = [row(n % 3 > 0, n % 3 > 1) for n in range(300)]
    found = estimate(figure("inform"), rows, Resampling(500))
    assert found == estimate(figure("inform"), rows, Resampling(500))
    assert found.value == pytest.approx(200 / 3)
    assert found.low is not None
    assert found.high is not None
    # The normal approximation of a share: 1.96 * sqrt(p (1 - p) / n)
    assert found.low == pytest.approx(66.67 - 5.33, abs=1)
    assert found.high == pytest.approx(66.67 + 5.33, abs=1)


def test_paired_systems() -> None:
    one = {f"d{n}": row(n % 2 == 0, False) for n in range(100)}
    other = {f"d{n}": row(n % 4 == 0, False) for n in range(120)}
    found = compare(figure("inform"), one, other, Resampling(1000))
    assert found is not None
    assert (found.difference, found.n) == (25.0, 100)
    assert found.p is not None
    assert found.p < 0.01
    assert found.low is not None
    assert found.low > 0
    same = compare(figure("inform"), one, one, Resampling(1000))
    assert same is not None
    assert (same.difference, same.p) == (0, 1)
    assert compare(figure("inform"), one, {"x": row(True, True)}, Resampling(100)) is None


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    return Lexicon(Database(ROWS))


@pytest.mark.parametrize(
    ("text", "slots"),
    [
        ("The Copper Spoon is Italian.", "the [restaurant_name] is [value_food]."),
        ("TR3 isn't one, tr1234 is", "tr[value_count] isn't one, [train_id] is"),
        ("call 01223 323737 at 9:15", "call [value_phone] at [value_time]"),
        ("your reference number is : QWERTYUI .", "your reference number is : [value_reference] ."),
        ("ref # 0A1B2C3D, please", "ref # [value_reference], please"),
        ("that is 12.50 pounds, cb2 1ab", "that is [value_price], [value_postcode]"),
        ("gull  cottage's fine", "[hotel_name]'s fine"),
    ],
)
def test_slots_are_put_back(lexicon: Lexicon, text: str, slots: str) -> None:
    assert lexicon.hear(text).delexicalised == slots.replace("tr[value_count]", "tr3")


def test_entities_are_consistent_with_the_results_given_or_the_own_state(lexicon: Lexicon) -> None:
    text = "copper spoon, harbour noodles or casa lindora"
    italian = {"restaurant": {"food": "italian"}}
    assert lexicon.hear(text).consistent == (False, False, False)
    assert lexicon.hear(text, None, italian).consistent == (True, False, True)
    given = {"restaurant": ["Harbour Noodles"]}
    assert lexicon.hear(text, given, italian).consistent == (True, True, True)
    assert lexicon.hear(text, {"restaurant": ["2"]}).consistent == (False, True, False)
    beyond = {"restaurant": ["x", "y", "z", "copper spoon"]}
    assert lexicon.hear(text, beyond).consistent == (False, False, False)


def original(folder: Path) -> dict[str, Any]:
    """A folder of MultiWOZ 2.0: no spans."""
    (folder / "database").mkdir()
    for domain, rows in ROWS.items():
        (folder / "database" / f"{domain}_db.json").write_text(json.dumps(rows))
    unset = {"book": {"booked": [], "day": ""}, "semi": {"area": "not mentioned"}}
    said = {"book": {"booked": [{"reference": "X"}], "day": "friday"}, "semi": {"area": "north"}}
    return {
        "SNG01.json": {
            "goal": {
                "hotel": {
                    "info": {"area": "north"},
                    "reqt": ["phone", "stars"],
                    "book": {"day": "x"},
                },
                "taxi": {},
                "message": ["..."],
            },
            "log": [
                {"text": "a hotel", "metadata": {}},
                {"text": "Lindenhof is fine", "metadata": {"hotel": unset, "taxi": unset}},
                {"text": "book it", "metadata": {}},
                {"text": "booked", "metadata": {"hotel": said, "taxi": unset}},
            ],
        }
    }


def test_version_2_0_is_delexicalised_by_the_databases(tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text(json.dumps(original(tmp_path)))
    corpus = load_corpus(tmp_path)
    assert corpus.references["sng01"] == ["NAME is fine", "booked"]
    assert corpus.states["sng01"] == [{}, {"hotel": {"area": "north", "bookday": "friday"}}]
    assert corpus.booked["sng01"] == [frozenset(), frozenset(["hotel"])]
    assert corpus.goals["sng01"]["hotel"].requestable == ("PHONE", "REFERENCE")
    assert list(corpus.goals["sng01"]) == ["hotel"]


def test_version_2_2_takes_goals_and_bookings_from_the_older_file(tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text(json.dumps(original(tmp_path)))
    turns = [
        {"turn_id": "0", "utterance": "a hotel", "frames": [frame("hotel-area", "north")]},
        {"turn_id": "1", "utterance": "Lindenhof is fine", "frames": []},
        {"turn_id": "2", "utterance": "book it", "frames": [frame("hotel-area", "dontcare")]},
        {"turn_id": "3", "utterance": "booked", "frames": []},
    ]
    dialogue = {"dialogue_id": "SNG01.json", "turns": turns}
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "dialogues_001.json").write_text(json.dumps([dialogue]))
    spans = {
        "1": {"span_info": [["Hotel-Inform", "name", "Lindenhof", 0, 9]]},
        "3": {"span_info": []},
    }
    (tmp_path / "dialog_acts.json").write_text(json.dumps({"SNG01.json": spans}))
    corpus = load_corpus(tmp_path)
    assert corpus.references["sng01"] == ["NAME is fine", "booked"]
    assert corpus.states["sng01"] == [{"hotel": {"area": "north"}}, {}]
    assert corpus.booked["sng01"][1] == {"hotel"}
    assert corpus.texts["sng01"][0] == ("a hotel", "Lindenhof is fine")


def frame(slot: str, given: str) -> dict[str, Any]:
    return {"service": "hotel", "state": {"slot_values": {slot: [given]}}}


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({}, "holds no corpus; accepted: goals.json with"),
        ({"data.json": "[]"}, "must map dialogue ids to goal and log"),
        ({"data.json": '{"a": {"goal": {}}}'}, "is not of the form of MultiWOZ 2.0 to 2.2"),
        ({"goals.json": "{"}, "is no JSON"),
    ],
)
def test_a_wrong_corpus_is_one_sentence(tmp_path: Path, files: dict[str, str], told: str) -> None:
    if files:
        original(tmp_path)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(CorpusError, match=told):
        load_corpus(tmp_path)


def test_turns_of_a_prepared_corpus_must_agree(tmp_path: Path) -> None:
    original(tmp_path)
    goal = {"hotel": {"informable": {}, "requestable": []}}
    for name, content in {
        **{"goals": {"d": goal}, "references": {"d": ["a"]}, "states": {"d": [{}, {}]}},
        "booked_domains": {"d": [[]]},
    }.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    with pytest.raises(CorpusError, match=r"turns of dialogue 'd' differ: 1 in references"):
        load_corpus(tmp_path)
