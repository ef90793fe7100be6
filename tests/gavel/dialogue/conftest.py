"""A small corpus, made by hand, whose every figure can be counted on fingers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from gavel.dialogue.corpus import Corpus, DomainGoal, Goal, State
from gavel.dialogue.database import Database
from gavel.dialogue.predictions import Predictions, Turn

ROOT = Path(__file__).parents[3]
SHARED = Path(os.environ.get("GAVEL_TEST_DATA") or ROOT.parent / "shared" / "data")
MULTIWOZ, CONVLAB = SHARED / "multiwoz", SHARED / "convlab"

needs_multiwoz = pytest.mark.skipif(
    not MULTIWOZ.exists(), reason=f"the MultiWOZ files are not there: {MULTIWOZ}"
)
needs_convlab = pytest.mark.skipif(
    not CONVLAB.exists(), reason=f"the ConvLab files are not there: {CONVLAB}"
)


def _train(*cells: str) -> dict[str, str]:
    names = ("trainID", "departure", "destination", "day", "leaveAt", "arriveBy")
    return dict(zip(names, cells, strict=True))


ROWS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "restaurant": [
        {"id": "1", "name": "copper spoon", "food": "italian", "area": "centre", "phone": "1"},
        {"id": "2", "name": "harbour noodles", "food": "chinese", "area": "north", "phone": "?"},
        {"id": "3", "name": "casa lindora", "food": "italian", "area": "north", "phone": "3"},
    ],
    "hotel": [
        {"id": "1", "name": "lindenhof", "area": "north", "stars": "4", "parking": "yes"},
        {"id": "2", "name": "gull cottage", "area": "east", "stars": "?", "parking": "no"},
    ],
    "attraction": [{"id": "1", "name": "clockwork museum", "type": "museum", "area": "centre"}],
    "train": [
        _train("TR1", "ashwick", "lindhafen", "monday", "08:10", "08:55"),
        _train("TR2", "ashwick", "lindhafen", "monday", "10:10", "10:55"),
        _train("TR3", "lindhafen", "ashwick", "friday", "17:20", "18:05"),
    ],
}


@pytest.fixture
def database() -> Database:
    return Database(ROWS)


def goal(**domains: tuple[Mapping[str, str], Sequence[str]]) -> Goal:
    """A goal: for each domain, its constraints and the tokens asked for."""
    return {name: DomainGoal(wanted, tuple(asked)) for name, (wanted, asked) in domains.items()}


def turn(response: str, state: State | None = None, **other: Any) -> Turn:
    return Turn(response, state, **other)


def corpus_of(
    goals: Mapping[str, Goal],
    turns: int | Mapping[str, int] = 1,
    booked: Mapping[str, Sequence[Sequence[str]]] | None = None,
    states: Mapping[str, Sequence[State]] | None = None,
) -> Corpus:
    """A corpus of `goals`, whose references all read "fine then"."""
    counts = {name: turns if isinstance(turns, int) else turns[name] for name in goals}
    return Corpus(
        goals=goals,
        references={name: ["fine then"] * count for name, count in counts.items()},
        states=states or {name: [{}] * count for name, count in counts.items()},
        booked={
            name: [frozenset(given) for given in (booked or {}).get(name, [[]] * count)]
            for name, count in counts.items()
        },
        database=Database(ROWS),
        fingerprint="test",
    )


def predictions_of(**dialogues: Sequence[Turn]) -> Predictions:
    return Predictions("tested", dialogues, "test")
