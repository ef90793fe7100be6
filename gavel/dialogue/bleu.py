"""BLEU as sacrebleu scores it, from statistics that add up.

Counts of one segment add to those of a dialogue, of a corpus, of a bootstrap sample; so they are
counted once, for all segments together, and the score is taken of any sum of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

_BETWEEN_WORDS = re.compile(r"(?<=[A-Za-z0-9]) (?=[A-Za-z0-9])")

ORDER = 4
STATISTICS = 2 * ORDER + 2
"""Matches of 1- to 4-grams, 1- to 4-grams of the response, its length, the reference's length."""


def statistics(responses: Sequence[str], references: Sequence[str]) -> NDArray[np.int64]:
    """The counts of every response against its one reference, tokenised by sacrebleu's 13a: n x 10."""
    words: dict[str, int] = {}
    ids, segments = [], []
    for texts in (responses, references):
        tokens = [_tokens(text) for text in texts]
        lengths = np.array([len(found) for found in tokens], dtype=np.int64)
        ids.append(
            np.array(
                [words.setdefault(word, len(words)) for found in tokens for word in found],
                dtype=np.int64,
            )
        )
        segments.append(np.repeat(np.arange(len(texts)), lengths))
    count = len(responses)
    result = np.zeros((count, STATISTICS), dtype=np.int64)
    for side, column in enumerate((2 * ORDER, 2 * ORDER + 1)):
        result[:, column] = np.bincount(segments[side], minlength=count)
    # Responses and references in one array, so that equal n-grams have equal codes.
    word = np.concatenate(ids)
    segment = np.concatenate([segments[0], segments[1] + count])
    code = word
    for n in range(ORDER):
        if n:
            whole = segment[:-n] == segment[n:] if n < len(segment) else np.zeros(0, dtype=bool)
            _, code = np.unique(
                code[: len(whole)] * (len(words) + 1) + word[n:], return_inverse=True
            )
        else:
            whole = np.ones(len(segment), dtype=bool)
        start = segment[: len(whole)][whole]
        gram = code[whole]
        grams = int(gram.max()) + 1 if len(gram) else 1
        own = start < count
        said, times_said = np.unique(start[own] * grams + gram[own], return_counts=True)
        asked, times_asked = np.unique(
            (start[~own] - count) * grams + gram[~own], return_counts=True
        )
        common, one, other = np.intersect1d(said, asked, assume_unique=True, return_indices=True)
        clipped = np.minimum(times_said[one], times_asked[other])
        result[:, n] = np.bincount(common // grams, weights=clipped, minlength=count)
        result[:, ORDER + n] = np.bincount(start[own], minlength=count)
    return result


def score(counts: NDArray[Any]) -> NDArray[np.float64]:
    """BLEU, 0 to 100, of each row of summed statistics (`... x 10`), zero matches smoothed by halving.

    Papineni et al. 2002; smoothing `exp` of Chen and Cherry 2014 (method 3), sacrebleu's default.
    """
    counts = np.asarray(counts, dtype=np.float64)
    matches, totals = counts[..., :ORDER], counts[..., ORDER : 2 * ORDER]
    said, asked = counts[..., 2 * ORDER], counts[..., 2 * ORDER + 1]
    halvings = np.cumsum((matches == 0) & (totals > 0), axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(matches > 0, matches, 0.5**halvings) / totals
        brevity = np.where(said < asked, np.exp(1 - asked / said), 1.0)
        scores = 100 * brevity * np.exp(np.log(precision).mean(axis=-1))
    hopeless = (totals == 0).any(axis=-1) | (matches == 0).all(axis=-1)
    return np.where(hopeless, 0.0, scores)


@cache
def signature() -> str:
    """sacrebleu's own signature of this BLEU: references, case, tokeniser, smoothing, version."""
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU()
    metric.corpus_score(["one"], [["one"]])  # the signature names the number of references seen
    return str(metric.get_signature())


@cache
def _tokenizer() -> Any:
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    tokenizer: Any = Tokenizer13a
    return tokenizer()


def _tokens(text: str) -> list[str]:
    """The tokens of sacrebleu's 13a; its rules look at neighbouring characters only, so that a text
    can be cut at any space between letters or digits, and each piece be tokenised once."""
    return [token for piece in _BETWEEN_WORDS.split(text) for token in _piece(piece)]


@lru_cache(maxsize=100_000)
def _piece(text: str) -> tuple[str, ...]:
    if text.isascii() and text.isalnum():
        return (text,)
    return tuple(_tokenizer()(text.rstrip()).split())
