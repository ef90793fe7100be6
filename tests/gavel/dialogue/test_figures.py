"""Figures, intervals and paired tests; lexicalised responses."""

from __future__ import annotations

from typing import Any

import pytest

from gavel.agreement.bootstrap import Resampling
from gavel.dialogue.database import Database
from gavel.dialogue.figures import FIGURES, Figure, compare, estimate, value
from gavel.dialogue.lexical import Lexicon

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
