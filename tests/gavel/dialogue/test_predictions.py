"""Prediction files: every form of a turn, and errors that name dialogue and turn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import krippendorff
import numpy as np
import pytest

from gavel.agreement.bootstrap import Resampling
from gavel.dialogue.acts import parse_acts
from gavel.dialogue.predictions import parse_belief, read_document, read_predictions
from gavel.dialogue.ratings import agreement, rate, read_ratings
from gavel.errors import PredictionError


def written(folder: Path, content: Any) -> Path:
    path = folder / "tested.json"
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_text(text, encoding="utf-8")
    return path


def test_the_plain_form(tmp_path: Path) -> None:
    turn = {
        "response": "[value_name]",
        "state": {"hotel": {"area": "north"}},
        "active_domains": ["hotel"],
        "database": {"hotel": ["lindenhof"]},
        "something": "else",
    }
    predictions = read_predictions(written(tmp_path, {"SNG01.json": [turn]}))
    assert predictions.system == "tested"
    (read,) = predictions.dialogues["sng01"]
    assert read.response == "[value_name]"
    assert read.state == {"hotel": {"area": "north"}}
    assert read.active_domains == ("hotel",)
    assert read.results == {"hotel": ("lindenhof",)}


BELIEF = {"hotel": {"area": "north", "stars": "4"}, "train": {"arriveby": "9:00"}}


@pytest.mark.parametrize(
    "turn",
    [
        ["[hotel] area north stars 4 [train] arrive by 9:00", "[hotel] [inform] name", "hello"],
        {
            "belief_state": "hotel area north, hotel stars 4, train arrive by 9:00",
            "actions": "",
            "response": "hello",
        },
        "<sos_b> [hotel] area north stars 4 [train] arriveby 9:00 <eos_b> <sos_a> [x] <eos_a> "
        "<sos_r> hello <eos_r>",
        "<|belief|> hotel-area=north, hotel-stars=4, train-arrive by=9:00 <|endofbelief|> "
        "<|action|> x <|endofaction|> <|response|> hello <|endofresponse|>",
    ],
)
def test_the_sequential_form(tmp_path: Path, turn: Any) -> None:
    (read,) = read_predictions(written(tmp_path, {"d": [turn]})).dialogues["d"]
    assert read.response == "hello"
    assert read.state == BELIEF


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("[attraction] name whale of a time", {"attraction": {"name": "whale of a time"}}),
        (
            "[attraction] type museum name the name of the rose",
            {"attraction": {"type": "museum", "name": "the name of the rose"}},
        ),
        ("[hotel] type guest house stay 2", {"hotel": {"type": "guest house", "stay": "2"}}),
        ("[police]", {}),
        ("", {}),
    ],
)
def test_a_belief_whose_values_read_like_slots(text: str, state: Any) -> None:
    assert parse_belief(text) == state


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "is no JSON"),
        ("[]", "must be an object of dialogue ids, found a list"),
        ("{}", "holds no dialogue; accepted: one or more"),
        ('{"d": [], "d": []}', "'d' stands there more than once"),
        ({"D.json": [], "d": []}, "dialogue 'd' stands there more than once"),
        ({"\ud800": []}, "dialogue '\\ud800': holds half a surrogate pair, which is no text"),
        ({"d": {}}, "dialogue 'd': must be a list of at least one turn, found an object"),
        ({"d": []}, "dialogue 'd': must be a list of at least one turn, found a list"),
        ({"d": [{"response": "x"}, 5]}, "dialogue 'd', turn 2: must be an object with a response"),
        ({"d": [{"text": "x"}]}, "dialogue 'd', turn 1: has no response; its keys are 'text'"),
        ({"d": [{"response": None}]}, "dialogue 'd', turn 1: response must be text, found null"),
        (
            {"d": [{"response": "x", "state": {"hotel": {"stars": 4}}}]},
            "dialogue 'd', turn 1: state.hotel.stars must be text, found a number",
        ),
        (
            {"d": [{"response": "x", "state": {"hotel": "x"}}]},
            "dialogue 'd', turn 1: state.hotel must map slots to values, found text",
        ),
        (
            {"d": [{"response": "x", "active_domains": "hotel"}]},
            "dialogue 'd', turn 1: active_domains must be a list of texts, found text",
        ),
        ({"d": ["hello"]}, "dialogue 'd', turn 1: a turn of one text needs a marked response"),
        ({"d": [["a", "b"]]}, "dialogue 'd', turn 1: a turn that is a list must be three texts"),
        (
            {"d": [["[moon] area x", "", "r"]]},
            "turn 1: the belief names 'moon', which is no domain",
        ),
        ({"d": [["[hotel] colour red", "", "r"]]}, "turn 1: the belief 'colour red' of hotel"),
    ],
)
def test_what_is_malformed_is_one_sentence(tmp_path: Path, content: Any, told: str) -> None:
    path = written(tmp_path, content)
    with pytest.raises(PredictionError) as error:
        read_predictions(path)
    assert str(error.value).startswith(f"{path}: ")
    assert told in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({"d": {"goal": {}}}, "dialogue 'd': log, or turns, must be a list of at least one object"),
        ({"d": {"goal": {}, "log": []}}, "log, or turns, must be a list of at least one object"),
        (
            {"d": {"goal": {"hotel": {"reqt": ["\ud800"]}}, "log": []}},
            "dialogue 'd': the goal holds half a surrogate pair",
        ),
        ({"d": {"goal": 1}}, "dialogue 'd': must be an object with a goal"),
        (
            {"d": {"goal": {"hotel": {"info": []}, "taxi": {"info": [1]}}, "log": []}},
            "dialogue 'd': goal.taxi: info and book must map slots to values",
        ),
        (
            {"d": {"goal": {}, "turns": [{"system": {"Hotel": []}}]}},
            "dialogue 'd', turn 1: the act 'Hotel' must be Domain-Intent",
        ),
        (
            {"d": {"goal": {}, "turns": [{"system": [["inform", "hotel"]]}]}},
            "dialogue 'd', turn 1: the act ['inform', 'hotel'] must be",
        ),
    ],
)
def test_malformed_acts(tmp_path: Path, content: Any, told: str) -> None:
    path = written(tmp_path, content)
    with pytest.raises(PredictionError) as error:
        parse_acts(path, read_document(path))
    assert told in str(error.value)


def test_ratings(tmp_path: Path) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text("system,item,rater,rating\na,d1,x,4\na,d1,y,2\na,d2,x,5\n", encoding="utf-8")
    ratings = read_ratings(path, ["a"])
    assert ratings.systems == {"a": {"d1": {"x": 4.0, "y": 2.0}, "d2": {"x": 5.0}}}
    assert ratings.notes == []
    rated = rate(ratings.systems["a"], Resampling(100))
    assert (rated.value, rated.n) == (4.0, 2)
    few = agreement(ratings.systems["a"], Resampling(100))
    assert (few.value, few.n, few.undefined) == (-0.0, 1, 1), "as chance gives, over one item"


def test_the_agreement_of_raters_is_that_of_the_krippendorff_package() -> None:
    given = {"d1": (1, 2), "d2": (4, 4), "d3": (5, 4), "d4": (2, 2), "d5": (3, None)}
    items = {
        item: {name: float(v) for name, v in zip("xy", pair, strict=True) if v is not None}
        for item, pair in given.items()
    }
    made = agreement(items, Resampling(100))
    raters = [
        [np.nan if v is None else v for v in column] for column in zip(*given.values(), strict=True)
    ]
    expected = krippendorff.alpha(reliability_data=raters, level_of_measurement="ordinal")
    assert made.value == pytest.approx(expected)
    assert (made.n, made.undefined) == (4, 1)


def test_a_bad_rating_is_left_out_and_told_and_the_later_of_two_stands(tmp_path: Path) -> None:
    path = tmp_path / "ratings.csv"
    rows = [
        *("a,d1,x,6", "a,d1,x,", "a,d1,x,nan", "a,d1,x", "a,,x,3", "a,d1", ",d1,x,3"),
        *("a,d1,x,3", "a,d1,x,5", "a,d1,x,nonsense", "b,d1,x,1", "b,d2,x,1"),
    ]
    path.write_text("\n".join(["system,item,rater,rating", *rows]), encoding="utf-8")
    ratings = read_ratings(path, ["a", "c"])
    assert ratings.systems == {"a": {"d1": {"x": 5.0}}}
    assert ratings.notes == [
        f"{path}: line 2: rating is '6'; accepted: a number from 1 to 5; left out",
        f"{path}: line 3: rating is ''; accepted: a number from 1 to 5; left out",
        f"{path}: line 4: rating is 'nan'; accepted: a number from 1 to 5; left out",
        f"{path}: line 5: rating is None; accepted: a number from 1 to 5; left out",
        f"{path}: line 6: item is empty; accepted: a name; left out",
        f"{path}: line 7: rater is empty; accepted: a name; left out",
        f"{path}: line 8: system is empty; accepted: a name; left out",
        f"{path}: line 10: rater 'x' rated 'd1' of 'a' before; this rating stands",
        f"{path}: line 11: rating is 'nonsense'; accepted: a number from 1 to 5; left out",
        f"{path}: line 12: system is 'b', which has no results; accepted: a, c; 2 such ratings left out",
    ]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"system,item,rater,rating\n\xff,d1,x,4\n", "cannot be read"),
        (b"system,item,rating\n", "has no column 'rater'; needed: system, item, rater, rating"),
        (b"", "has no column 'system'"),
        (None, "cannot be read"),
    ],
)
def test_a_table_of_ratings_that_cannot_be_read_has_none(
    tmp_path: Path, content: bytes | None, told: str
) -> None:
    path = tmp_path / "ratings.csv"
    if content is not None:
        path.write_bytes(content)
    ratings = read_ratings(path, ["a"])
    assert ratings.systems == {}
    (note,) = ratings.notes
    assert note.startswith(f"{path}: {told}")
    assert note.endswith("; the leaderboard is without ratings")
