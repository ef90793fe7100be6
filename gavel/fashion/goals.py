"""Goals: what each simulated customer wants, an item or something for an occasion. Seeded."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from gavel.errors import FashionError
from gavel.fashion.vocabulary import ATTRIBUTES, Vocabulary
from gavel.settings.fashion import Fashion, FashionCustomer

EVALUATION, DEVELOPMENT = "evaluation", "development"
SPLITS = (EVALUATION, DEVELOPMENT)

_OPTIONAL_SHARE = 0.5
"""How likely a goal names each attribute besides the apparel."""
_FEWEST = 2
"""Attributes a goal names at least besides the apparel."""
_TRIES = 1_000
"""Repeated combinations in a row after which all are taken to be used up."""

SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "split", "goal_kind", "goal", "properties")),
        *((name, pa.string()) for name in ("theme", "customer", "customer_kind", "personality")),
    ]
)
"""One row a goal, and one conversation each."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What one customer wants. `properties` are English values by attribute; none for a theme."""

    id: str
    split: str
    kind: Literal["item", "theme"]
    text: str
    properties: Mapping[str, str]
    theme: str | None
    customer: str
    customer_kind: Literal["template", "item", "theme"]
    personality: str | None

    def row(self) -> dict[str, str | None]:
        """The goal as a row of its table."""
        return {
            "id": self.id,
            "split": self.split,
            "goal_kind": self.kind,
            "goal": self.text,
            "properties": joined(self.properties),
            "theme": self.theme,
            "customer": self.customer,
            "customer_kind": self.customer_kind,
            "personality": self.personality,
        }


def goal_of(row: Mapping[str, str], vocabulary: Vocabulary) -> Goal:
    """The goal in a row that has the columns of SCHEMA."""
    return Goal(
        row["id"],
        row["split"],
        row["goal_kind"],  # type: ignore[arg-type]
        row["goal"],
        parse_properties(row["properties"], vocabulary),
        row["theme"],
        row["customer"],
        row["customer_kind"],  # type: ignore[arg-type]
        row["personality"],
    )


def joined(properties: Mapping[str, str]) -> str:
    """Properties as one text: their values, comma-separated, in the order of ATTRIBUTES."""
    return ", ".join(properties[name] for name in ATTRIBUTES if name in properties)


def parse_properties(text: str, vocabulary: Vocabulary) -> dict[str, str]:
    """The attributes of a comma-separated list of values: every value belongs to one attribute.

    Raises:
        FashionError: a value is not in the vocabulary, or an attribute is given twice.
    """
    found: dict[str, str] = {}
    for value in filter(None, (part.strip() for part in text.split(","))):
        attribute = vocabulary.attribute_of.get(value)
        if attribute is None or attribute in found:
            why = "is no value of the vocabulary" if attribute is None else "repeats its attribute"
            raise FashionError(f"properties {text!r}: {value!r} {why}")
        found[attribute] = value
    return found


def item_text(properties: Mapping[str, str]) -> str:
    """The goal in words, such as "black Nike shoes in size M"."""
    words = [properties[name] for name in ATTRIBUTES if name in properties and name != "size"]
    if "size" in properties:
        words.append(f"in size {properties['size']}")
    return " ".join(words)


def make_goals(settings: Fashion, vocabulary: Vocabulary) -> list[Goal]:
    """The goals of both splits, equal for equal settings and vocabulary.

    No two of a split's items are equal before its combinations are used up. Customers are dealt by their shares.
    The development split uses only the attributes and values that the vocabulary lists for it, besides every
    apparel.
    """
    goals = []
    for split, count in zip(SPLITS, (settings.evaluation, settings.development), strict=True):
        chance = random.Random(f"{settings.seed}|{split}")
        allowed = dict(vocabulary.values)
        if split == DEVELOPMENT:
            allowed = {"apparel": allowed["apparel"], **_tuples(vocabulary.development)}
        items = _items(allowed, chance)
        themes = _themes(list(vocabulary.themes), chance)
        for number, (name, customer) in enumerate(_dealt(settings.customers, count, chance), 1):
            identity = f"{split[0]}{number:05d}"
            if customer.kind == "theme":
                theme = next(themes)
                goals.append(
                    Goal(
                        identity,
                        split,
                        "theme",
                        theme,
                        {},
                        theme,
                        name,
                        "theme",
                        customer.personality,
                    )
                )
            else:
                properties = next(items)
                goals.append(
                    Goal(
                        identity,
                        split,
                        "item",
                        item_text(properties),
                        properties,
                        None,
                        name,
                        customer.kind,
                        customer.personality,
                    )
                )
    return goals


def repeated_items(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """The splits that ask for more items than there are different ones, a sentence each."""
    found = []
    for split in SPLITS:
        items = [row["goal"] for row in rows if (row["split"], row["goal_kind"]) == (split, "item")]
        if len(set(items)) < len(items):
            found.append(
                f"{split}: {len(items):,} items, {len(set(items)):,} of them distinct: its attributes have "
                f"no more combinations; set fashion.{split} lower where that matters"
            )
    return found


def _tuples(values: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(found) for name, found in values.items()}


def _items(allowed: Mapping[str, Sequence[str]], chance: random.Random) -> Iterator[dict[str, str]]:
    seen: set[str] = set()
    others = [name for name in ATTRIBUTES if name in allowed and name != "apparel"]
    tries = 0
    while True:
        chosen = [name for name in others if chance.random() < _OPTIONAL_SHARE]
        if len(chosen) < _FEWEST:
            chosen = chance.sample(others, _FEWEST)
        picked = {name: chance.choice(allowed[name]) for name in [*chosen, "apparel"]}
        properties = {name: picked[name] for name in ATTRIBUTES if name in picked}
        if joined(properties) in seen:
            tries += 1
            if tries == _TRIES:
                # A split of more goals than there are combinations goes through them again.
                seen.clear()
            continue
        tries = 0
        seen.add(joined(properties))
        yield properties


def _themes(names: Sequence[str], chance: random.Random) -> Iterator[str]:
    """Every theme once, in random order, again and again."""
    while True:
        yield from chance.sample(names, len(names))


def _dealt(
    customers: Mapping[str, FashionCustomer], count: int, chance: random.Random
) -> list[tuple[str, FashionCustomer]]:
    """`count` customers in random order, as many of each as its share says (largest remainders)."""
    total = sum(customer.share for customer in customers.values())
    exact = {name: count * customer.share / total for name, customer in customers.items()}
    counts = {name: int(number) for name, number in exact.items()}
    rest = sorted(exact, key=lambda name: counts[name] - exact[name])
    for name in rest[: count - sum(counts.values())]:
        counts[name] += 1
    dealt = [(name, customers[name]) for name in customers for _ in range(counts[name])]
    chance.shuffle(dealt)
    return dealt
