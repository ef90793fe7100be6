"""BLEU as sacrebleu scores it, from statistics that add up.

Counts of one segment add to those of a dialogue, of a corpus, of a bootstrap sample; so they are
counted once, for all segments together, and the score is taken of any sum of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LARGEST = 2**62

ORDER = 4
STATISTICS = 2 * ORDER + 2
"""Matches of 1- to 4-grams, 1- to 4-grams of the response, its length, the reference's length."""


def statistics(responses: Sequence[str], references: Sequence[str]) -> NDArray[np.int64]:
    """The counts of every response against its one reference, tokenised by sacrebleu's 13a: n x 10."""
    words = _Words()
    ids, segments = [], []
    for texts in (responses, references):
        numbered = [words.of(text) for text in texts]
        ids.append(np.fromiter(chain.from_iterable(numbered), dtype=np.int64))
        segments.append(
            np.repeat(np.arange(len(texts)), np.fromiter(map(len, numbered), dtype=np.int64))
        )
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
            code = code[: len(whole)] * (len(words.numbers) + 1) + word[n:]
            if len(code) and int(code.max()) * max(count, len(words.numbers) + 1) >= _LARGEST:
                _, code = np.unique(code, return_inverse=True)
        else:
            whole = np.ones(len(segment), dtype=bool)
        start = segment[: len(whole)][whole]
        gram = code[whole]
        grams = int(gram.max()) + 1 if len(gram) else 1  # count * grams stays below _LARGEST
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


class _Words(dict[str, tuple[int, ...]]):
    """The tokens of each word, numbered. 13a looks at neighbouring characters only: words are apart."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: dict[str, int] = {}
        self._texts: dict[str, list[int]] = {}

    def __missing__(self, word: str) -> tuple[int, ...]:
        self[word] = tuple(
            self.numbers.setdefault(token, len(self.numbers)) for token in _word(word)
        )
        return self[word]

    def of(self, text: str) -> list[int]:
        """The numbers of the tokens of `text`."""
        if (known := self._texts.get(text)) is None:
            numbers = map(self.__getitem__, text.split(" "))
            known = self._texts[text] = list(chain.from_iterable(numbers))
        return known


@lru_cache(maxsize=100_000)
def _word(text: str) -> tuple[str, ...]:
    # 13a changes nothing but punctuation, and cuts these marks off whatever they end.
    if text.isalnum():
        return (text,)
    if text[:-1].isalnum() and text[-1] in ".,?!":
        return text[:-1], text[-1]
    return tuple(_tokenizer()(text).split())
