"""The search engine: finds what is asked for, takes any text for words, and is the same every time."""

from __future__ import annotations

import pytest

from gavel.fashion.catalogue import Catalogue, carousel
from gavel.fashion.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def catalogue(vocabulary: Vocabulary) -> Catalogue:
    return Catalogue(vocabulary, 3000, 7)


def test_the_best_item_has_what_was_asked_for(catalogue: Catalogue) -> None:
    items = catalogue.search(["black Nike shoes"], 5)
    assert len(items) == 5
    assert {"black", "Nike", "shoes"} <= items[0].values
    assert "PULL&BEAR" in catalogue.search(["PULL&BEAR green coat"], 1)[0].values


def test_several_queries_share_the_carousel(catalogue: Catalogue) -> None:
    one, other = catalogue.search(["red jeans"], 2), catalogue.search(["wool coat"], 2)
    both = catalogue.search(["red jeans", "wool coat"], 4)
    assert {i.number for i in both} == {i.number for i in [*one, *other]}
    assert carousel(both).splitlines()[0] == "[ITEMS]"
    assert len(carousel(both).splitlines()) == 5


@pytest.mark.parametrize(
    "query", ["", "  ", "&&& ---", "unicorn", '"', "text:", "(", "^2", "λορεμ ιψουμ", "\x00"]
)
def test_a_query_without_a_known_word_finds_nothing(catalogue: Catalogue, query: str) -> None:
    assert catalogue.search([query], 5) == []
    assert carousel([]) == "[ITEMS] nothing found"


@pytest.mark.parametrize("query", ["shoes AND NOT black", "+shoes -black", "number:7 shoes"])
def test_operators_are_words(catalogue: Catalogue, query: str) -> None:
    assert "shoes" in catalogue.search([query], 1)[0].values


def test_a_very_long_query_is_cut(catalogue: Catalogue) -> None:
    assert "shoes" in catalogue.search(["shoes " + "x" * 100_000], 1)[0].values


def test_the_catalogue_is_the_same_every_time(vocabulary: Vocabulary, catalogue: Catalogue) -> None:
    again = Catalogue(vocabulary, 3000, 7)
    assert again.items == catalogue.items
    assert again.search(["summer hoodie"], 20) == catalogue.search(["summer hoodie"], 20)
    assert Catalogue(vocabulary, 3000, 8).items != catalogue.items
