"""The bundled vocabulary and phrases, and conversations to test with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gavel.fashion.conversation import Conversation, Turn
from gavel.fashion.goals import Goal, item_text
from gavel.fashion.scripted import Scripts
from gavel.fashion.simulate import Ground
from gavel.fashion.vocabulary import Vocabulary, load_vocabulary
from gavel.settings.fashion import Fashion
from gavel.suite import Suite, load_suite

ROOT = Path(__file__).parents[3]
PROMPTS = ROOT / "prompts" / "fashion"


@pytest.fixture(scope="session")
def vocabulary() -> Vocabulary:
    return load_vocabulary(PROMPTS)


@pytest.fixture(scope="session")
def scripts() -> Scripts:
    return Scripts(PROMPTS)


@pytest.fixture(scope="session")
def suite() -> Suite:
    return load_suite(ROOT / "suite.yaml")


@pytest.fixture
def ground(suite: Suite) -> Callable[..., Ground]:
    """The ground with settings of one's own."""
    return lambda **settings: Ground(
        suite, Fashion(**{"evaluation": 14, "development": 0} | settings)
    )


def goal(number: int = 1, /, **changes: Any) -> Goal:
    """A goal about black Nike shoes in size M, or `changes` of it."""
    properties = changes.pop(
        "properties", {"colour": "black", "brand": "Nike", "apparel": "shoes", "size": "M"}
    )
    theme = changes.pop("theme", None)
    return Goal(
        **{
            "id": f"e{number:05d}",
            "split": "evaluation",
            "kind": "item" if theme is None else "theme",
            "text": item_text(properties) if theme is None else theme,
            "properties": properties if theme is None else {},
            "theme": theme,
            "customer": "c",
            "customer_kind": "item" if theme is None else "theme",
            "personality": "casual",
            **changes,
        }
    )


def talk(*turns: Turn, **changes: Any) -> Conversation:
    """A conversation of `turns` that ended in success."""
    own = changes.pop("goal", None) or goal()
    return Conversation(
        own, turns=list(turns), outcome=changes.pop("outcome", "success"), **changes
    )


def said(text: str) -> Turn:
    """The customer's last word."""
    return Turn(text)


def searched(text: str, *queries: str) -> Turn:
    """A message of the customer that the assistant answers by a search."""
    return Turn(text, "search", "", list(queries), "[ITEMS]")


def wrote(text: str, answer: str) -> Turn:
    """A message of the customer that the assistant answers in words."""
    return Turn(text, "message", answer)
