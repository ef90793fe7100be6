"""Lexicalised responses: entities, phones, times and references found in the text by the databases.

A system that writes real names (arXiv 2108.13679) is measured by putting the slots back: the longest
phrase that the databases know becomes its slot, and the metrics are those of delexicalised text.
Besides, the names tell whether the system kept to its own search: entity consistency.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gavel.dialogue.corpus import State
from gavel.dialogue.database import Database, entity_id

RESULTS = 3
"""Database results that a system is given; an entity beyond them was not offered to it."""

_WORD = re.compile(r"[a-z0-9]+(?:\s?'\s?s\b)?|&")
_NUMBERS = re.compile(
    r"(?P<value_time>\b\d{1,2}\s?:\s?\d{2}\b)"
    r"|(?P<value_price>£\s?\d+(?:\.\d+)?|\b\d+(?:\s?\.\s?\d+)?\s(?:pounds?|gbp)\b)"
    r"|(?P<value_phone>\b\d{5}\s?\d{5,6}\b)"
    r"|(?P<train_id>\btr\s?\d{4}\b)"
    r"|(?P<value_postcode>\b[a-z]{2}\d{1,2}\s?,?\s?\d[a-z]{2}\b)"
    r"|(?P<value_reference>\b(?=[a-z]*\d)(?=\d*[a-z])[a-z0-9]{8}\b|\b\d{8}\b)"
    r"|(?P<value_count>\b\d{1,3}\b)"
)
# A reference may be letters alone; then the words before it tell it from a word.
_NAMED_REFERENCE = re.compile(
    r"\b(?:ref|reference|confirm|confirmation)\W*(?:(?:number|code|no)\W*)?(?:is\W*)?"
    r"(?P<value_reference>[a-z0-9]{8})\b"
)
# Columns whose values become slots; those of an entity alone also say which domain is spoken of.
_COLUMNS = {
    "restaurant": {
        **{"name": "restaurant_name", "address": "restaurant_address"},
        **{"food": "value_food", "area": "value_area", "pricerange": "value_pricerange"},
    },
    "hotel": {"name": "hotel_name", "address": "hotel_address", "pricerange": "value_pricerange"},
    "attraction": {
        **{"name": "attraction_name", "address": "attraction_address", "type": "value_type"},
    },
    "train": {"departure": "value_place", "destination": "value_place", "day": "value_day"},
}
_IDENTIFYING = ("phone", "postcode")

Entity = tuple[str, str]
"""A domain and the id of one of its entities."""


@dataclass(frozen=True)
class Heard:
    """A response with its slots put back; each entity named in it, and whether rightly."""

    delexicalised: str
    entities: tuple[str, ...]
    consistent: tuple[bool, ...]


@dataclass(frozen=True)
class _Phrase:
    words: tuple[str, ...]
    slot: str
    entities: frozenset[Entity]


@dataclass(frozen=True)
class _Span:
    start: int
    end: int
    slot: str
    entities: frozenset[Entity] = frozenset()


class Lexicon:
    """Every phrase that the databases know, to be found in text, longest first."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._phrases = _phrases(database)
        self._numbers = _identifying(database)
        self._trains = frozenset(row["trainid"].lower() for row in database.rows["train"])

    def hear(
        self,
        text: str,
        results: Mapping[str, Sequence[str]] | None = None,
        state: State | None = None,
    ) -> Heard:
        """`text` with its slots put back, and whether each entity it names was to be named.

        An entity is rightly named when it is among the first three of `results`, the database results
        that the system was given, or satisfies the system's own `state` of its domain.
        """
        lower = text.lower()
        spans = list(self._spans(lower))
        pieces, entities, consistent, end = [], [], [], 0
        for span in spans:
            pieces += [lower[end : span.start], f"[{span.slot}]"]
            end = span.end
            if span.entities and span.slot.endswith(("_name", "_id")):
                entities.append(lower[span.start : span.end])
                consistent.append(self._is_consistent(span.entities, results or {}, state or {}))
        return Heard("".join([*pieces, lower[end:]]), tuple(entities), tuple(consistent))

    def _is_consistent(
        self, entities: frozenset[Entity], results: Mapping[str, Sequence[str]], state: State
    ) -> bool:
        for domain, identity in entities:
            given = {_words(name) for name in results.get(domain, ())[:RESULTS]}
            if _words(identity) in given or any(
                _words(row.get("name", "")) in given
                for row in self._database.rows[domain]
                if given and entity_id(domain, row) == identity
            ):
                return True
            if domain in state and identity in self._database.query(domain, state[domain]):
                return True
        return False

    def _spans(self, text: str) -> Iterator[_Span]:
        """What was found in `text`, from left to right, without overlaps: phrases, then numbers."""
        spans = list(self._found(text))
        for pattern in (_NAMED_REFERENCE, _NUMBERS):
            for found in pattern.finditer(text):
                start, end = found.span(str(found.lastgroup))
                if not any(span.start < end and start < span.end for span in spans):
                    spans.append(_Span(start, end, *self._meaning(found)))
        return iter(sorted(spans, key=lambda span: span.start))

    def _found(self, text: str) -> Iterator[_Span]:
        words = list(_WORD.finditer(text))
        plain = [_plain(word[0]) for word in words]
        # A phrase may end in a possessive that is not its own: "gull cottage's".
        bare = [_plain(word[0].partition("'")[0]) for word in words]
        at = 0
        while at < len(words):
            for phrase in (*self._phrases.get(plain[at], ()), *self._phrases.get(bare[at], ())):
                last = at + len(phrase.words) - 1
                if last >= len(words) or tuple(plain[at:last]) != phrase.words[:-1]:
                    continue
                if phrase.words[-1] in (plain[last], bare[last]):
                    own = phrase.words[-1] == plain[last]
                    end = words[last].end() if own else words[last].start() + len(bare[last])
                    yield _Span(words[at].start(), end, phrase.slot, phrase.entities)
                    at = last + 1
                    break
            else:
                at += 1

    def _meaning(self, found: re.Match[str]) -> tuple[str, frozenset[Entity]]:
        """The slot of a number and whose it is: a phone says which domain is spoken of."""
        slot = str(found.lastgroup)
        digits = re.sub(r"[\s,]", "", found[slot])
        if slot == "train_id":
            known = digits in self._trains
            return slot, frozenset([("train", digits.upper())]) if known else frozenset()
        owner = self._numbers.get(digits)
        return (f"{owner}_{slot.removeprefix('value_')}" if owner else slot), frozenset()


def _phrases(database: Database) -> dict[str, list[_Phrase]]:
    """The phrases by their first word, longest first."""
    found: dict[tuple[str, ...], tuple[str, set[Entity]]] = {}
    for domain, columns in _COLUMNS.items():
        for row in database.rows[domain]:
            for column, slot in columns.items():
                if row.get(column, "?") == "?":
                    continue
                for words in _variants(row[column]):
                    _, entities = found.setdefault(words, (slot, set()))
                    if column == "name":
                        entities.add((domain, entity_id(domain, row)))
    phrases: dict[str, list[_Phrase]] = {}
    for words, (slot, entities) in found.items():
        phrases.setdefault(words[0], []).append(_Phrase(words, slot, frozenset(entities)))
    for group in phrases.values():
        group.sort(key=lambda phrase: (-len(phrase.words), phrase.words))
    return phrases


def _identifying(database: Database) -> dict[str, str]:
    """The domain of every phone and postcode; the first where several share one."""
    owners: dict[str, str] = {}
    for domain in ("restaurant", "hotel", "attraction"):
        for row in database.rows[domain]:
            for column in _IDENTIFYING:
                owners.setdefault(re.sub(r"[\s,]", "", row.get(column, "?").lower()), domain)
    return owners


def _variants(text: str) -> set[tuple[str, ...]]:
    """The ways a phrase of the database is written, as words."""
    words = _words(text)
    if not words:
        return set()
    found = {words}
    # Without "the", unless an ordinary word is what remains.
    if words[0] == "the" and len(words) > 2:
        found.add(words[1:])
    for variant in list(found):
        joined = " ".join(variant)
        for one, other in (("guest house", "guesthouse"), ("centre", "center")):
            found.add(tuple(joined.replace(one, other).split()))
            found.add(tuple(joined.replace(other, one).split()))
    return found


def _words(text: str) -> tuple[str, ...]:
    return tuple(_plain(word[0]) for word in _WORD.finditer(text.lower()))


def _plain(word: str) -> str:
    return "and" if word == "&" else re.sub(r"[^a-z0-9]", "", word)
