"""Partial ratio of two texts, exactly as fuzzywuzzy computes it, on rapidfuzz's primitives.

rapidfuzz has a partial ratio of its own that also slides shorter windows over the ends of the longer
text, so that `danish` is 91 of `spanish`; fuzzywuzzy's is 83, and the standard evaluation's
threshold of 90 was set with that one. Its values are upper bounds here, which lets whole columns be
sifted quickly.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from rapidfuzz import fuzz, process
from rapidfuzz.distance import Indel, Levenshtein

_EXACT_UP_TO = 64
"""Characters of the shorter text up to which rapidfuzz's own partial ratio is the optimum."""


@lru_cache(maxsize=200_000)
def partial_ratio(one: str, other: str) -> int:
    """How well the shorter text fits the best aligned part of the longer one, from 0 to 100.

    The windows compared are those that the matching blocks of an optimal edit path start; the
    similarity of a window is 2 * matches / (sum of lengths), rounded to a whole number of per cent.
    """
    if one == other:
        return 100
    shorter, longer = (one, other) if len(one) <= len(other) else (other, one)
    if not shorter:
        return 0
    best = 0.0
    for block in Levenshtein.editops(shorter, longer).as_matching_blocks():
        start = max(block.b - block.a, 0)
        window = longer[start : start + len(shorter)]
        similarity = Indel.normalized_similarity(shorter, window)
        if similarity > 0.995:
            return 100
        best = max(best, similarity)
    return round(100 * best)


def similar(value: str, candidates: Iterable[str], threshold: int) -> set[str]:
    """Those of `candidates` whose partial ratio with `value` is at least `threshold`."""
    possible = list(candidates)
    if len(value) <= _EXACT_UP_TO:
        sifted = process.extract(
            value, possible, scorer=fuzz.partial_ratio, score_cutoff=threshold - 0.51, limit=None
        )
        possible = [candidate for candidate, _, _ in sifted]
    return {text for text in possible if partial_ratio(text, value) >= threshold}
