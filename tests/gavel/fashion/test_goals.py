"""Goals: seeded, distinct, of the vocabulary; the development split keeps to its own values."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from gavel.errors import FashionError
from gavel.fashion.goals import (
    goal_of,
    item_text,
    joined,
    make_goals,
    parse_properties,
    repeated_items,
)
from gavel.fashion.vocabulary import ATTRIBUTES, Vocabulary, load_vocabulary
from gavel.settings.fashion import Fashion, FashionCustomer


def test_the_default_is_the_whole_data_set(vocabulary: Vocabulary) -> None:
    goals = make_goals(Fashion(), vocabulary)
    assert Counter(goal.split for goal in goals) == {"evaluation": 1334, "development": 1062}
    assert len({goal.id for goal in goals}) == len(goals)
    assert goals == make_goals(Fashion(), vocabulary)
    assert goals != make_goals(Fashion(seed=8), vocabulary)
    for split in ("evaluation", "development"):
        items = [g.text for g in goals if g.split == split and g.kind == "item"]
        assert len(set(items)) == len(items)
    kinds = Counter((goal.customer_kind, goal.personality) for goal in goals)
    assert len(kinds) == 7
    assert max(kinds.values()) - min(kinds.values()) <= 2


def test_every_value_and_theme_is_asked_for(vocabulary: Vocabulary) -> None:
    goals = make_goals(Fashion(), vocabulary)
    asked = {value for goal in goals for value in goal.properties.values()}
    assert asked == set(vocabulary.attribute_of)
    assert {goal.theme for goal in goals} - {None} == set(vocabulary.themes)
    assert len(vocabulary.themes) == 9
    for goal in goals:
        assert goal.kind == "theme" or ("apparel" in goal.properties and len(goal.properties) >= 3)


def test_the_development_split_keeps_to_its_values(vocabulary: Vocabulary) -> None:
    own = [g for g in make_goals(Fashion(), vocabulary) if g.split == "development"]
    found: dict[str, set[str]] = {}
    for goal in own:
        for attribute, value in goal.properties.items():
            found.setdefault(attribute, set()).add(value)
    assert found == {
        "colour": {"black", "white", "red"},
        "type": {"utility", "athletic", "formal"},
        "brand": {"Converse", "Nike", "Pier One"},
        "size": {"S", "M", "L"},
        "apparel": set(vocabulary.values["apparel"]),
    }


def test_customers_are_dealt_by_their_shares(vocabulary: Vocabulary) -> None:
    customers = {
        "a": FashionCustomer(kind="template", share=2),
        "b": FashionCustomer(kind="item", personality="rude"),
    }
    goals = make_goals(Fashion(evaluation=10, development=0, customers=customers), vocabulary)
    assert Counter(goal.customer for goal in goals) == {"a": 7, "b": 3}


def test_more_goals_than_combinations_repeat_some(tmp_path: Path, vocabulary: Vocabulary) -> None:
    goals = make_goals(Fashion(evaluation=1, development=7_000), vocabulary)
    assert len(goals) == 7_001
    items = [g.text for g in goals if g.split == "development" and g.kind == "item"]
    (told,) = repeated_items([goal.row() for goal in goals])  # type: ignore[misc]
    assert f"development: {len(items):,} items, {len(set(items)):,} of them distinct" in told
    assert len(set(items)) < len(items)
    assert repeated_items([g.row() for g in make_goals(Fashion(), vocabulary)]) == []  # type: ignore[misc]


def test_properties_are_read_back_from_their_text(vocabulary: Vocabulary) -> None:
    for goal in make_goals(Fashion(), vocabulary):
        assert parse_properties(joined(goal.properties), vocabulary) == goal.properties
        assert goal_of(goal.row(), vocabulary) == goal  # type: ignore[arg-type]
    whole = {name: vocabulary.values[name][0] for name in ATTRIBUTES}
    assert joined(whole) == "black, utility, leather, slim, Converse, pants, S"
    assert item_text(whole) == "black utility leather slim Converse pants in size S"


@pytest.mark.parametrize(
    ("text", "told"),
    [("black, purple", "'purple' is no value"), ("black, red", "'red' repeats its attribute")],
)
def test_other_properties_are_refused(text: str, told: str, vocabulary: Vocabulary) -> None:
    with pytest.raises(FashionError, match=told):
        parse_properties(text, vocabulary)


def test_a_broken_vocabulary_is_told(tmp_path: Path) -> None:
    with pytest.raises(FashionError, match="cannot be read"):
        load_vocabulary(tmp_path)
    (tmp_path / "vocabulary.yaml").write_text("attributes: {colour: {black: {}}}")
    with pytest.raises(FashionError, match="accepted: exactly colour, type"):
        load_vocabulary(tmp_path)
