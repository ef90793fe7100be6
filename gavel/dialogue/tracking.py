"""Dialogue state tracking: joint goal accuracy and slot F1 over a dialogue's turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gavel.dialogue.corpus import State
from gavel.dialogue.database import ONE_LETTER, OneLetter
from gavel.dialogue.fuzzy import partial_ratio

VALUE_RATIO = 95
"""Two values are the same where their partial ratio is above this."""


_NOTHING: Mapping[str, str | None] = {}


@dataclass
class Tracking:
    """Counts that add up over dialogues; `joint` are the turns whose whole state is right.

    `one_letter` counts values that count as right only because one of them, of a single letter, is
    part of the other.
    """

    turns: int = 0
    joint: int = 0
    right: int = 0
    spurious: int = 0
    missed: int = 0
    one_letter: int = 0


def track(predicted: Sequence[State], gold: Sequence[State], one_letter: OneLetter) -> Tracking:
    """Compare the states of a dialogue turn by turn.

    Joint goal accuracy is joint / turns: all slots of all domains, no more and no less, with equal
    values. Slot precision and recall are right / (right + spurious) and right / (right + missed);
    a wrong value is both spurious and missed. (Nekvinda and Dušek 2021.)
    """
    counts = Tracking()
    for own, reference in zip(predicted, gold, strict=True):
        right = said = asked = 0
        for domain in own.keys() | reference.keys():
            ours, theirs = own.get(domain, _NOTHING), reference.get(domain, _NOTHING)
            said += (known := _known(ours))
            if ours == theirs:
                asked += known
                right += known
                continue
            asked += _known(theirs)
            for slot in ours.keys() & theirs.keys():
                one, other = ours[slot], theirs[slot]
                if one is None or other is None:
                    continue
                alike, by_letter = _same(one, other)
                counts.one_letter += by_letter
                right += alike and not (by_letter and one_letter == "equal")
        counts.turns += 1
        counts.joint += right == said == asked
        counts.right += right
        counts.spurious += said - right
        counts.missed += asked - right
    return counts


def _known(slots: Mapping[str, str | None]) -> int:
    values = slots.values()
    return len(values) if None not in values else sum(value is not None for value in values)


def _same(one: str, other: str) -> tuple[bool, bool]:
    """Whether two values count as one, and whether only a single letter in common makes them so."""
    if one == other:
        return True, False
    alike = partial_ratio(one, other) > VALUE_RATIO
    return alike, alike and min(len(one), len(other)) <= ONE_LETTER
