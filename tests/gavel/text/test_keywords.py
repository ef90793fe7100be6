"""YAKE: what is a keyword stands in the text, in its order; texts without words have none."""

from __future__ import annotations

import pytest

from gavel.text.keywords import WORDS, keywords


def test_stop_words_go_and_the_order_of_the_text_stays() -> None:
    assert keywords("I am looking for black leather Nike shoes.", "en") == [
        "black",
        "leather",
        "Nike",
        "shoes",
    ]


def test_each_language_has_its_stop_words() -> None:
    found = keywords("Ich suche eine schwarze Jacke aus Leder von Nike", "de")
    assert "eine" not in found
    assert found[-1] == "Nike"


@pytest.mark.parametrize("text", ["", "  \n", "???", "of the and"])
def test_a_text_without_words_has_none(text: str) -> None:
    assert keywords(text, "en") == []


def test_a_long_text_has_only_so_many() -> None:
    words = " ".join(a + b + "ing" for a in "bcdfgklmnp" for b in ("ann", "ett", "orr", "ill"))
    found = keywords(words, "en")
    assert len(found) == WORDS
    assert [words.find(word) for word in found] == sorted(words.find(word) for word in found)
