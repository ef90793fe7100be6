"""The files of a corpus: MultiWOZ 2.0, 2.1, 2.2 and ConvLab as they lie, and what is wrong with one."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from gavel.dialogue.loading import load_corpus
from gavel.errors import CorpusError

from .conftest import ROWS


def databases(folder: Path) -> None:
    (folder / "database").mkdir()
    for domain, rows in ROWS.items():
        (folder / "database" / f"{domain}_db.json").write_text(json.dumps(rows))


def exchange(
    text: str,
    metadata: dict[str, Any] | None = None,
    spans: list[list[Any]] | None = None,
) -> list[dict[str, Any]]:
    """A customer's and a system's turn as 2.0 has them; with spans, as 2.1."""
    more = {} if spans is None else {"span_info": spans}
    return [
        {"text": "please", "metadata": {}, **more},
        {"text": text, "metadata": metadata or {}, **more},
    ]


def dialogue(*exchanges: list[dict[str, Any]], **goal: Any) -> dict[str, Any]:
    """A dialogue as 2.0 has it; domains that the customer wants nothing of are empty."""
    nothing = {
        "taxi": {},
        "police": {},
        "hospital": {},
        "message": ["..."],
        "topic": {"taxi": False},
    }
    return {"goal": nothing | goal, "log": [turn for each in exchanges for turn in each]}


def slots(book: dict[str, Any] | None = None, **semi: str) -> dict[str, Any]:
    """The belief of one domain: what is booked or to be booked, and what is wanted."""
    return {"book": {"booked": [], **(book or {})}, "semi": semi}


def test_version_2_0_is_delexicalised_by_the_databases(tmp_path: Path) -> None:
    databases(tmp_path)
    unset = slots({"day": ""}, area="not mentioned", stars="none", type="dontcare", name="")
    booked = [{"name": "lindenhof", "reference": "ABCDEFGH"}]
    hotel = slots({"booked": booked, "day": "friday", "people": "2"}, area="north")
    # A taxi is booked without a reference; `bus` is a domain that only beliefs have.
    taxi = slots({"booked": [{"type": "blue kia", "phone": "07123456789"}]}, leaveAt="9:15")
    told = dialogue(
        exchange("Lindenhof is fine", {"hotel": unset, "taxi": unset, "bus": unset}),
        exchange("booked", {"hotel": hotel, "taxi": taxi, "bus": unset}),
        hotel={
            "info": {"area": "North", "pricerange": "Cheap"},
            "fail_info": {},
            "reqt": ["phone", "stars"],
            "book": {"day": "friday"},
        },
    )
    told["log"].append({"text": "bye", "metadata": {}})  # a last word without an answer
    (tmp_path / "data.json").write_text(json.dumps({"SNG01.json": told, "SNG02.json": dialogue()}))
    (tmp_path / "testListFile.json").write_text("SNG01.json\n")
    corpus = load_corpus(tmp_path)
    assert list(corpus.goals) == ["sng01"]
    assert corpus.references["sng01"] == ["NAME is fine", "booked"]
    assert corpus.states["sng01"] == [
        {},
        {
            "hotel": {"area": "north", "bookday": "friday", "bookpeople": "2"},
            "taxi": {"leave": "09:15"},
        },
    ]
    assert corpus.booked["sng01"] == [frozenset(), frozenset(["hotel"])]
    assert list(corpus.goals["sng01"]) == ["hotel"]
    assert corpus.goals["sng01"]["hotel"].informable == {"area": "north", "pricerange": "cheap"}
    assert corpus.goals["sng01"]["hotel"].requestable == ("PHONE", "REFERENCE")


@pytest.mark.parametrize("name", ["SNG01.json", "SNG01", "sng01.json", "sng01"])
@pytest.mark.parametrize("listed", ["SNG01.json\n", "sng01", "SNG01\r\n\nsng01.json", None])
def test_ids_are_the_same_in_either_case_with_and_without_json(
    tmp_path: Path, name: str, listed: str | None
) -> None:
    databases(tmp_path)
    (tmp_path / "data.json").write_text(json.dumps({name: dialogue(exchange("Hello"))}))
    if listed is not None:
        (tmp_path / "testListFile.txt").write_text(listed, encoding="utf-8")
    assert load_corpus(tmp_path).references == {"sng01": ["hello"]}


def test_version_2_1_is_delexicalised_by_its_spans_of_words(tmp_path: Path) -> None:
    databases(tmp_path)
    text = "TR1 to Lindhafen arrives at 08:55 , ref AB12 , any day , it costs 4 pounds"
    spans = [
        ["Train-OfferBook", "Id", "TR1", 0, 0],
        ["Train-Inform", "Dest", "Lindhafen", 2, 2],
        ["Train-Inform", "Arrive", "08:55", 5, 5],
        ["Train-OfferBooked", "Ref", "AB12", 8, 8],
        ["Train-Inform", "Day", "dontcare", 10, 11],
        ["Train-Inform", "Ticket", "4 pounds", 15, 16],
        ["Train-Inform", "People", "4", 15, 15],  # lies within the one before
    ]
    belief = {"train": slots(destination="lindhafen|lindhafen north", arriveBy="08:55")}
    content = {"MUL1.json": dialogue(exchange(text, belief, spans))}
    # ConvLab's copy is zipped.
    with zipfile.ZipFile(tmp_path / "test.json.zip", "w") as archive:
        archive.writestr("test.json", json.dumps(content))
    corpus = load_corpus(tmp_path)
    assert corpus.references["mul1"] == [
        "TRAINID to PLACE arrives at TIME, ref REFERENCE, any day, it costs PRICE"
    ]
    assert corpus.states["mul1"] == [{"train": {"destination": "lindhafen", "arrive": "08:55"}}]


def user(turn: str, **values: dict[str, list[str]]) -> dict[str, Any]:
    """A customer's turn of 2.2, which has a frame for every service, whether spoken of or not."""
    frames = [
        {
            "service": service,
            "actions": [],
            "slots": [],
            "state": {
                "active_intent": "NONE",
                "requested_slots": [],
                "slot_values": {f"{service}-{slot}": v for slot, v in given.items()},
            },
        }
        for service, given in ({"bus": {}, "taxi": {}} | values).items()
    ]
    return {"turn_id": turn, "speaker": "USER", "utterance": "please", "frames": frames}


def said(turn: str, text: str, *frames: dict[str, Any]) -> dict[str, Any]:
    return {"turn_id": turn, "speaker": "SYSTEM", "utterance": text, "frames": list(frames)}


def test_version_2_2_takes_goals_and_bookings_from_the_older_file(tmp_path: Path) -> None:
    databases(tmp_path)
    old = exchange("old", {"hotel": slots({"booked": [{"reference": "X"}]}, area="east")})
    log = {
        "SNG01.json": dialogue(exchange("old"), old, hotel={"info": {"area": "north"}}),
        "SNG02.json": dialogue(exchange("of another split")),
    }
    (tmp_path / "data.json").write_text(json.dumps(log))
    # A system's frames have no state, and a slot copied from another has no place in the text.
    frame = {
        "service": "hotel",
        "slots": [
            {"slot": "hotel-name", "value": "Lindenhof", "start": 9, "exclusive_end": 18},
            {"slot": "hotel-area", "copy_from": "restaurant-area", "value": "north"},
        ],
    }
    turns = [
        user("0", hotel={"area": ["north", "the north"], "stars": ["dontcare"], "name": []}),
        said("1", "Lindenhof is in the north", {"service": "hotel", "slots": []}),
        user("2", hotel={"area": ["dontcare"]}, taxi={"leaveat": ["9:15"]}),
        said("3", "Booked , Lindenhof", frame),
    ]
    for split, content in (("test", "SNG01.json"), ("train", "SNG02.json")):
        (tmp_path / split).mkdir()
        (tmp_path / split / "dialogues_001.json").write_text(
            json.dumps([{"dialogue_id": content, "services": ["hotel"], "turns": turns}])
        )
    spans = [
        ["Hotel-Inform", "area", "north", 20, 25],
        ["Hotel-Inform", "name", "Lindenhof", 0, 9],
        ["Hotel-Inform", "type", "dontcare", 10, 12],
    ]
    acts = {
        "1": {"dialog_act": {}, "span_info": spans}
    }  # the last turn has spans in its frames alone
    (tmp_path / "dialog_acts.json").write_text(json.dumps({"sng01": acts}))
    corpus = load_corpus(tmp_path)
    assert list(corpus.goals) == ["sng01"]
    assert corpus.goals["sng01"]["hotel"].informable == {"area": "north"}
    assert corpus.references["sng01"] == ["NAME is in the AREA", "booked, NAME"]
    assert corpus.states["sng01"] == [{"hotel": {"area": "north"}}, {"taxi": {"leave": "09:15"}}]
    assert corpus.booked["sng01"] == [frozenset(), frozenset(["hotel"])]
    assert corpus.texts["sng01"][0] == ("please", "Lindenhof is in the north")


LOG = json.dumps({"A.json": dialogue(exchange("Hi"))})
TURNS = [user("0"), said("1", "Hi"), user("2"), said("3", "Bye")]
FRAMES = json.dumps([{"dialogue_id": "A.json", "turns": TURNS}])


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({}, "holds no corpus; accepted: goals.json with"),
        ({"data.json": "[]"}, "must map dialogue ids to their content"),
        (
            {"data.json": '{"A.json": {"goal": {}}}'},
            "dialogue 'a' is not of the form of MultiWOZ 2.0 and 2.1",
        ),
        ({"data.json": '{"a": {"goal": {}, "log": [{}, {"text": 1}]}}'}, "dialogue 'a' is not"),
        ({"test.json.zip": "PK"}, "must be a zip file that holds test.json"),
        (
            {"data.json": LOG, "testListFile.txt": "b\n"},
            "data.json: lacks 'b' and 0 other dialogues",
        ),
        ({"data.json": LOG, "dialogues_001.json": "[1]"}, "must be a list of dialogues"),
        ({"data.json": LOG, "dialogues_001.json": FRAMES}, "dialog_acts.json: cannot be read"),
        (
            {"data.json": LOG, "dialogues_001.json": FRAMES, "dialog_acts.json": "{}"},
            "dialog_acts.json: must map dialogue ids",
        ),
        (
            {"data.json": LOG, "dialogues_001.json": FRAMES, "dialog_acts.json": '{"b": {}}'},
            "dialogue 'a' of 2.2, or its dialog_acts.json, is not of the form of MultiWOZ 2.2",
        ),
        (
            {"data.json": LOG, "dialogues_001.json": FRAMES, "dialog_acts.json": '{"a": {}}'},
            "dialogue 'a' has 2 turns in 2.2 and 1 in the older file",
        ),
        ({"goals.json": "{"}, "is no JSON"),
    ],
)
def test_a_wrong_corpus_is_one_sentence(tmp_path: Path, files: dict[str, str], told: str) -> None:
    if files:
        databases(tmp_path)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(CorpusError, match=told):
        load_corpus(tmp_path)


PREPARED = {"references": ["a"], "states": [{}], "booked_domains": [[]]}


def prepared(folder: Path, **changes: Any) -> None:
    databases(folder)
    goal = {"hotel": {"informable": {}, "requestable": []}}
    for name, content in {"goals": goal, **PREPARED, **changes}.items():
        (folder / f"{name}.json").write_text(json.dumps({"D.json": content}))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"states": [{}, {}]}, "turns of dialogue 'd' differ: 1 in references"),
        ({"goals": {"hotel": {}}}, "a goal must map domains to informable and requestable"),
        ({"references": [1]}, "dialogue 'd', turn 1 of references.json: must be text, found 1"),
        ({"states": [{"hotel": "x"}]}, "dialogue 'd', turn 1 of states.json: must map domains"),
        ({"states": [{"hotel": {"stars": 4}}]}, "turn 1 of states.json: must map domains"),
        ({"booked_domains": ["hotel"]}, "turn 1 of booked_domains.json: must be a list of domains"),
    ],
)
def test_a_wrong_prepared_corpus_names_dialogue_and_turn(
    tmp_path: Path, changes: dict[str, Any], told: str
) -> None:
    prepared(tmp_path)
    assert load_corpus(tmp_path).references == {"d": ["a"]}
    shutil.rmtree(tmp_path / "database")
    prepared(tmp_path, **changes)
    with pytest.raises(CorpusError, match=re.escape(told)):
        load_corpus(tmp_path)


def test_any_file_that_determines_the_corpus_changes_its_fingerprint(tmp_path: Path) -> None:
    databases(tmp_path)
    files = {
        "data.json": json.dumps({"a": dialogue(exchange("Hi"))}),
        "testListFile.txt": "a",
        "test/dialogues_001.json": json.dumps(
            [{"dialogue_id": "a", "turns": [user("0"), said("1", "Hi")]}]
        ),
        "dialog_acts.json": json.dumps({"a": {}}),
    }
    (tmp_path / "test").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    fingerprints = {load_corpus(tmp_path).fingerprint}
    for name, text in files.items():
        (tmp_path / name).write_text(text + "\n")
        fingerprints.add(load_corpus(tmp_path).fingerprint)
    database = tmp_path / "database" / "hotel_db.json"
    database.write_text(database.read_text() + "\n")
    assert len(fingerprints | {load_corpus(tmp_path).fingerprint}) == 6
