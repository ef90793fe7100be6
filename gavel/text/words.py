"""Whole words: where a value stands in a text as a word of its own, and not as a part of another."""

from __future__ import annotations

import re
from collections.abc import Iterable

_BEFORE = r"(?<!\w)(?<!\w['&])"
_AFTER = r"(?!\w)(?!&\w)(?!'(?!s(?!\w))\w)"
"""A word is continued by letters, digits, and by an apostrophe or & that joins them: Levi's, PULL&BEAR, H&M.

A quotation mark does not join, nor a hyphen, nor the 's of a possessive: 'Nike' and Nike's hold Nike.
"""
_LOST = re.compile(
    r"\b([Ii](?= m \w)"
    r"|(?:[Ii]t|[Tt]hat|[Ww]hat|[Hh]e|[Ss]he|[Hh]ere|[Tt]here|[Ww]here|[Ww]ho|[Hh]ow|[Ll]et)(?= s \w)"
    r"|[Ll]evi(?= s\b)) "
)
"""Where a lower-case m or s is what is left of a contraction without its apostrophe, and no size."""


def plain(text: str) -> str:
    """`text` with one kind of apostrophe, one kind of space, and no difference of case.

    An English apostrophe that was left out ("i m looking", "it s a", "levi s") is put back.
    """
    spaced = " ".join(re.sub("[‘’ʼ`´]", "'", text).split())
    return _LOST.sub(r"\1'", spaced).casefold()


def whole_word(values: Iterable[str]) -> re.Pattern[str]:
    """Matches any of `values` in a `plain` text, as a whole word; a trailing `*` stands for any ending.

    The longest value is tried first, so that "sweat à capuche" is not read as "sweat".
    """
    patterns = [
        re.escape(plain(value.rstrip("*"))) + (r"\w*" if value.endswith("*") else "")
        for value in sorted(values, key=lambda value: (-len(value), value))
    ]
    return re.compile(rf"{_BEFORE}(?:{'|'.join(patterns)}){_AFTER}")


def holds(text: str, values: Iterable[str]) -> bool:
    """Whether any of `values` stands in `text` as a whole word, whatever its case."""
    return whole_word(values).search(plain(text)) is not None


def count_words(text: str) -> int:
    """Tokens of a text for statistics: runs of letters, digits, apostrophes, or single other signs."""
    return len(re.findall(r"[\w'’&]+|[^\w\s]", text))
