"""Whole words: where a value stands in a text as a word of its own, and not as a part of another."""

from __future__ import annotations

import re
from collections.abc import Iterable

_BOUND = r"\w'&"
"""What continues a word: letters, digits, and what joins them in Levi's, PULL&BEAR, H&M. A hyphen does not."""


def plain(text: str) -> str:
    """`text` with one kind of apostrophe, one kind of space, and no difference of case."""
    return " ".join(re.sub("[’ʼ`´]", "'", text).split()).casefold()


def whole_word(values: Iterable[str]) -> re.Pattern[str]:
    """Matches any of `values` in a `plain` text, as a whole word; a trailing `*` stands for any ending.

    The longest value is tried first, so that "sweat à capuche" is not read as "sweat".
    """
    patterns = [
        re.escape(plain(value.rstrip("*"))) + (r"\w*" if value.endswith("*") else "")
        for value in sorted(values, key=lambda value: (-len(value), value))
    ]
    return re.compile(rf"(?<![{_BOUND}])(?:{'|'.join(patterns)})(?![{_BOUND}])")


def holds(text: str, values: Iterable[str]) -> bool:
    """Whether any of `values` stands in `text` as a whole word, whatever its case."""
    return whole_word(values).search(plain(text)) is not None


def count_words(text: str) -> int:
    """Tokens of a text for statistics: runs of letters, digits, apostrophes, or single other signs."""
    return len(re.findall(r"[\w'’&]+|[^\w\s]", text))
