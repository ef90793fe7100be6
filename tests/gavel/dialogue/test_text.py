"""Moses, BLEU, the partial ratio and the spellings: equal to what they stand for."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu import corpus_bleu
from sacremoses import MosesDetokenizer, MosesTokenizer

from gavel.dialogue import bleu, normalise
from gavel.dialogue.database import Database
from gavel.dialogue.domains import from_slots, from_states
from gavel.dialogue.fuzzy import partial_ratio, similar
from gavel.dialogue.moses import round_trip

TOKENIZER, DETOKENIZER = MosesTokenizer(lang="en"), MosesDetokenizer(lang="en")
PIECES = [
    *("a", "b1", "it's", "'s", "'", '"', "``", "“", "a.", "c,", "1,000", "x-y", "--", ".", "?"),
    *(
        "(",
        "$",
        "£5",
        "mr.",
        "no. 5",
        "é",
        "&",
        "[x]",
        "<",
        "|",
        "\t",
        "\n",
        "中",
        "s'",
        "_",
        "NAME",
    ),
    *("&apos;", "@-@", "\u00a0", ":", "12:30", "e.g.", "...", "", "cannot", "you 're"),
]
texts = st.lists(st.sampled_from(PIECES), max_size=9).map(" ".join)


@given(texts)
def test_the_round_trip_is_that_of_sacremoses(text: str) -> None:
    assert round_trip(text) == DETOKENIZER.detokenize(TOKENIZER.tokenize(text))


@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=5))
def test_bleu_is_that_of_sacrebleu(pairs: list[tuple[str, str]]) -> None:
    said, asked = [list(side) for side in zip(*pairs, strict=True)]
    own = bleu.score(bleu.statistics(said, asked).sum(axis=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert own == pytest.approx(corpus_bleu(said, [asked]).score)


def test_bleu_of_nothing_is_zero() -> None:
    assert bleu.score(np.zeros(bleu.STATISTICS)) == 0
    assert bleu.statistics([], []).shape == (0, bleu.STATISTICS)
    assert bleu.signature().startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")


@pytest.mark.parametrize(
    ("one", "other", "ratio"),
    [
        # As fuzzywuzzy 0.18 with python-Levenshtein has them; rapidfuzz's own are up to 9 higher.
        ("danish", "spanish", 83),
        ("korean", "singaporean", 83),
        ("graffitti", "graffiti", 88),
        ("j restaurant", "restaurant one seven", 83),
        ("express holiday inn cambridge", "express by holiday inn cambridge", 90),
        ("adc theatre", "mumford theatre", 86),
        ("abc", "abc", 100),
        ("a", "cambridge", 100),
        ("", "abc", 0),
        ("", "", 100),
    ],
)
def test_partial_ratio(one: str, other: str, ratio: int) -> None:
    assert partial_ratio(one, other) == partial_ratio(other, one) == ratio


def test_sifting_loses_nothing() -> None:
    chance = random.Random(7)
    words = ["guest", "house", "spoon", "copper", "b", "and", "the", "spanish", "x" * 40]
    names = [" ".join(chance.choices(words, k=chance.randint(1, 4))) for _ in range(60)]
    for name in names:
        assert similar(name, names, 90) == {n for n in names if partial_ratio(n, name) >= 90}


@pytest.mark.parametrize(
    ("slot", "given", "expected"),
    [
        ("arrive", "5pm", "17:00"),
        ("arrive", "5:30 p.m.", "17:30"),
        ("arrive", "12:15 pm", "24:15"),
        ("leave", "after 9:05", "09:05"),
        ("leave", "by 0930", "09:30"),
        ("leave", "15 : 00", "15:00"),
        ("leave", "7", "07:00"),
        ("leave", "8:15 am", "08:15"),
        ("leave", "noon", "12:00"),
        ("leave", "", "00:00"),
        ("leave", "about 5:30 pm", "about5:30"),
        ("food", " Portugese", "portuguese"),
        ("type", "guest house", "guesthouse"),
        ("name", "Christ College", "christ's college"),
        ("name", "a & b", "a and b"),
        ("departure", "saint john 's college", "saint john's college"),
        ("parking", "free", "yes"),
        ("area", "North", "North"),
        ("area", None, None),
    ],
)
def test_values(slot: str, given: str | None, expected: str | None) -> None:
    assert normalise.value(slot, given) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The [hotel_name]s , [value_phone] .", "the NAME, PHONE."),
        ("[train_id] at [train_leave]-s", "TRAINID at TIME"),
        ("[restaurant] is weekly-ly", "is weekly"),
        ("[Entrance Fee] , [police_postcode]", "PRICE, POST"),
    ],
)
def test_responses(text: str, expected: str) -> None:
    assert normalise.response(text) == expected


def test_states_have_one_spelling_of_slots() -> None:
    assert normalise.state({"Price Range": "cheap", "leaveAt": "9:05"}) == {
        "pricerange": "cheap",
        "leave": "09:05",
    }


def test_domains_of_slots() -> None:
    assert from_slots("[hotel_name] [value_area] [train]") == ("hotel", "train")


def test_domains_of_states() -> None:
    hotel, both = {"hotel": {"a": "1"}}, {"hotel": {"a": "1"}, "taxi": {"b": "1", "c": "2"}}
    assert from_states([{}, hotel, hotel, both, both]) == [
        *((), ("hotel",), ("hotel",), ("taxi",), ("taxi",)),
    ]
    # Two domains change at once, then none: the talk turns to the other.
    assert from_states([both, both, both]) == [("taxi",), ("hotel",), ("hotel",)]


def test_the_database(database: Database) -> None:
    assert database.query("restaurant", {"food": "italian"}) == {"1", "3"}
    assert database.query("restaurant", {"food": "italian", "unheard": "of"}) == {"1", "3"}
    assert database.query("restaurant", {"name": "harbor noodles"}) == {"2"}
    assert database.query("restaurant", {"name": "o"}) == {"1", "2", "3"}
    assert database.query("restaurant", {"name": "o"}, one_letter="equal") == set()
    assert database.query("restaurant", {"area": "North"}) == set()
    assert database.query("restaurant", {"phone": "3"}) == {"2", "3"}  # an unknown phone may be any
    assert database.query("hotel", {"stars": "4"}) == {"1", "2"}
    assert database.query("train", {"arrive": "09:00"}) == {"TR1"}
    assert database.query("train", {"leave": "nonsense"}) == {"TR1", "TR2", "TR3"}
    assert database.query("taxi", {}) == set()
