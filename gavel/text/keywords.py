"""Keywords of a text by YAKE (Campos et al. 2020): unsupervised, one text at a time, no model."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import version

import yake

from gavel.text.words import plain

WORDS = 20
"""Keywords taken at most: YAKE's own default."""

REVISION = f"yake-{version('yake')}|n:1|top:{WORDS}|order:text"


@lru_cache(maxsize=8)
def _extractor(language: str) -> yake.KeywordExtractor:
    return yake.KeywordExtractor(lan=language, n=1, dedup_lim=0.9, top=WORDS)


def keywords(text: str, language: str) -> list[str]:
    """The WORDS best single words of `text`, in the order in which they first stand there.

    `language` is an ISO 639-1 code that YAKE has stop words of: an unknown one would get none, in silence.
    A text without words has no keywords.
    """
    if not text.strip():
        return []
    pairs = _extractor(language).extract_keywords(text)
    # YAKE leaves the full stop of an abbreviation on a word, and takes the end of a sentence for one.
    found = [word.strip(".,;:!?·") for word, _ in pairs]
    told = plain(text)
    return sorted(found, key=lambda word: told.find(plain(word)))
