"""Scores worked out by hand: attributes, themes, several queries and searches, and what is undefined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from gavel.fashion.scores import add_scores, attributes_found, combined
from gavel.fashion.vocabulary import Vocabulary

GOAL = {"colour": "gray", "brand": "Levi's", "size": "S", "apparel": "pants"}


@pytest.mark.parametrize(
    ("searches", "exact", "equivalent"),
    [
        ([["gray Levi's pants S"]], "gray Levi's S pants", "gray Levi's S pants"),
        ([["grey levis trousers small"]], "", "gray Levi's S pants"),
        ([["gray"], ["levi’s pants"]], "gray Levi's pants", "gray Levi's pants"),
        ([["GRAY PANTS size s"]], "gray S pants", "gray S pants"),
        ([["grayish pants-suit Levi's"]], "Levi's pants", "Levi's pants"),
        ([["'gray' 'Levi's' pants size 'S'"]], "gray Levi's S pants", "gray Levi's S pants"),
        ([["levi s gray pants"]], "gray Levi's pants", "gray Levi's pants"),
        ([["small pants"]], "pants", "S pants"),
        ([["schwarze Hose S"]], "S", "S"),
        ([], "", ""),
        ([["x" * 10_000 + " gray"]], "gray", "gray"),
    ],
)
def test_attributes_are_found_as_whole_words(
    searches: list[list[str]], exact: str, equivalent: str, vocabulary: Vocabulary
) -> None:
    found = attributes_found(searches, GOAL, vocabulary)
    assert " ".join(each["value"] for each in found if each["exact"]) == exact
    assert " ".join(each["value"] for each in found if each["equivalent"]) == equivalent
    assert [each["attribute"] for each in found] == list(GOAL)


def test_a_goal_in_words_is_not_met_by_the_letter_exactly(vocabulary: Vocabulary) -> None:
    (small,) = attributes_found([["pants S"]], {"size": "small"}, vocabulary)
    assert (small["exact"], small["equivalent"]) == (False, True)


VALUES = {"a": 0.2, "b": 0.6, "c": 1.0, "none": None}


@pytest.mark.parametrize(
    ("searches", "mean", "best"),
    [
        ([["a"]], 0.2, 0.2),
        ([["a", "b"]], 0.4, 0.6),
        ([["a", "b"], ["c"]], 0.7, 0.8),
        ([["a", "none"]], 0.2, 0.2),
        ([["none"], ["c"]], 1.0, 1.0),
        ([["none"]], None, None),
        ([[]], None, None),
        ([], None, None),
    ],
)
def test_several_queries_and_several_searches(
    searches: list[list[str]], mean: float | None, best: float | None
) -> None:
    assert combined(searches, VALUES.get, "mean") == pytest.approx(mean)
    assert combined(searches, VALUES.get, "best") == pytest.approx(best)


def row(
    goal: str, properties: str, searches: list[list[str]], theme: str | None = None
) -> dict[str, Any]:
    return {
        "goal_kind": "item" if theme is None else "theme",
        "goal": theme or goal,
        "properties": properties,
        "theme": theme,
        "searches": searches,
        "outcome": "success",
    }


def vectors(vocabulary: Vocabulary) -> dict[str, Any]:
    """The themes along nine axes; queries between them."""
    found = {t.description: np.eye(9)[n] for n, t in enumerate(vocabulary.themes.values())}
    # Nearest to the first theme, then the second, third, fourth.
    found["near first"] = np.array([0.8, 0.5, 0.3, 0.1, 0, 0, 0, 0, 0])
    found["black shoes"] = np.eye(9)[0]
    found["shoes"] = np.array([0.5, np.sqrt(0.75), 0, 0, 0, 0, 0, 0, 0])
    return found


def test_scores_of_items_and_themes(vocabulary: Vocabulary) -> None:
    names = list(vocabulary.themes)
    rows = [
        row("black shoes", "black, shoes", [["shoes"], ["black shoes"]]),
        row("black shoes", "black, shoes", []),
        *(row("", "", [["near first"]], names[n]) for n in (0, 2, 3)),
        row("", "", [], names[0]),
    ]
    asked: list[tuple[str, str]] = []

    def bertscore(queries: Sequence[str], goals: Sequence[str]) -> list[float]:
        asked.extend(zip(queries, goals, strict=True))
        return [1.0 if query == goal else 0.5 for query, goal in zip(queries, goals, strict=True)]

    add_scores(rows, vocabulary, "mean", bertscore, vectors(vocabulary), "")
    assert asked == [("shoes", "black shoes"), ("black shoes", "black shoes")]
    assert [r["bertscore"] for r in rows] == [0.75, None, None, None, None, None]
    assert [r["similarity"] for r in rows] == [0.75, None, None, None, None, None]
    assert [r["theme_first"] for r in rows] == [None, None, 1.0, 0.0, 0.0, None]
    assert [r["theme_third"] for r in rows] == [None, None, 1.0, 1.0, 0.0, None]
    assert [r["undefined"] for r in rows] == [None, "no query", None, None, None, "no query"]
    assert [[a["exact"] for a in r["attributes"]] for r in rows[:2]] == [
        [True, True],
        [False, False],
    ]


def test_places_of_themes_are_those_of_exact_products(vocabulary: Vocabulary) -> None:
    """In single precision a product by itself and the same one among others may differ in the last digit."""
    random = np.random.default_rng(5)
    names = list(vocabulary.themes)
    near = random.normal(size=(9, 384)) + 2
    queries = near[np.arange(300) % 9] + random.normal(size=(300, 384)) * 3
    found = {
        text: (vector / np.linalg.norm(vector)).astype(np.float32)
        for text, vector in zip(
            [*(theme.description for theme in vocabulary.themes.values()), *map(str, range(300))],
            [*near, *queries],
            strict=True,
        )
    }
    rows = [row("", "", [[str(n)]], names[n % 9]) for n in range(300)]
    add_scores(rows, vocabulary, "mean", None, found, "")
    themes = np.stack(list(found.values())[:9]).astype(np.float64)
    for n, scored in enumerate(rows):
        place = np.argsort(-(themes @ found[str(n)].astype(np.float64))).tolist().index(n % 9)
        assert (scored["theme_first"], scored["theme_third"]) == (place < 1, place < 3)


def test_what_a_customer_broke_before_a_search_says_nothing_of_the_system(
    vocabulary: Vocabulary,
) -> None:
    both: list[list[list[str]]] = [[], [["shoes"]]]
    rows = [row("black shoes", "black, shoes", s) | {"outcome": "customer_broke"} for s in both]
    add_scores(rows, vocabulary, "mean", None, vectors(vocabulary), "no model")
    assert (rows[0]["attributes"], rows[0]["undefined"]) == ([], "the customer broke it")
    assert [a["exact"] for a in rows[1]["attributes"]] == [False, True]


def test_without_a_model_bertscore_is_undefined_and_says_why(vocabulary: Vocabulary) -> None:
    rows = [row("black shoes", "black, shoes", [["shoes"]])]
    add_scores(rows, vocabulary, "mean", None, vectors(vocabulary), "no model")
    assert (rows[0]["bertscore"], rows[0]["undefined"]) == (None, "no model")
    assert rows[0]["similarity"] == 0.5
