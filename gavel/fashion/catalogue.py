"""The shop's catalogue and the search engine behind the carousel: tantivy, in memory, BM25."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import tantivy

from gavel.fashion.vocabulary import ATTRIBUTES, Vocabulary
from gavel.text.words import plain

MARKER = "[ITEMS]"
_LONGEST_SEARCHED = 1_000
"""Characters of a query that the search engine reads."""

_OCCASIONS = {
    "utility": "hiking outdoor work mountains weatherproof",
    "athletic": "sports football training running winter summer",
    "formal": "Christmas dinner coffee house elegant evening",
    "summer": "rooftop party taverna Greek light",
    "urban": "techno club Berlin street eccentric",
}
"""What an article of each type is also found by."""


@dataclass(frozen=True)
class Item:
    """One article of the shop."""

    number: int
    title: str
    values: frozenset[str]


class Catalogue:
    """Items made by chance from the vocabulary, equal for equal `seed` and `count`, and their index."""

    def __init__(self, vocabulary: Vocabulary, count: int, seed: int) -> None:
        chance = random.Random(f"{seed}|catalogue")
        builder = tantivy.SchemaBuilder()
        builder.add_unsigned_field("number", stored=True)
        builder.add_text_field("text", stored=False, tokenizer_name="default")
        self._index = tantivy.Index(builder.build())
        self.items: list[Item] = []
        writer = self._index.writer(heap_size=50_000_000, num_threads=1)
        for number in range(count):
            values = {name: chance.choice(vocabulary.values[name]) for name in ATTRIBUTES}
            title = " ".join(values[name] for name in ATTRIBUTES if name != "size")
            item = Item(number, f"{title}, size {values['size']}", frozenset(values.values()))
            self.items.append(item)
            text = f"{item.title} {_OCCASIONS.get(values['type'], '')}"
            writer.add_document(tantivy.Document(number=number, text=text))
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()
        self._searcher = self._index.searcher()

    def search(self, queries: Sequence[str], most: int) -> list[Item]:
        """The best items of each query in turn, each item once, `most` in all.

        A query is words, never syntax. One without a word that the catalogue knows finds nothing.
        """
        found: dict[int, Item] = {}
        ranked = [self._ranked(query, most) for query in queries]
        for rank in range(most):
            for items in ranked:
                if rank < len(items) and len(found) < most:
                    found.setdefault(items[rank].number, items[rank])
        return list(found.values())

    def _ranked(self, query: str, most: int) -> list[Item]:
        words = "".join(c if c.isalnum() else " " for c in plain(query)[:_LONGEST_SEARCHED])
        if not words.split():
            return []
        # Operators are upper-case, and the words are lower-case.
        parsed = self._index.parse_query(words, ["text"])
        hits = self._searcher.search(parsed, most).hits
        numbers = [self._searcher.doc(address)["number"][0] for _, address in hits]
        return [self.items[number] for number in numbers]


@lru_cache(maxsize=2)
def catalogue_of(vocabulary: Vocabulary, count: int, seed: int) -> Catalogue:
    """The catalogue, made once a process."""
    return Catalogue(vocabulary, count, seed)


def carousel(items: Sequence[Item]) -> str:
    """The items as the customer sees them."""
    if not items:
        return f"{MARKER} nothing found"
    return "\n".join([MARKER, *(f"{n}. {item.title}" for n, item in enumerate(items, 1))])
