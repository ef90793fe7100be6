"""Rules in place of models: the scripted customers and assistant, and the baselines that write queries.

Each reads the subject of a request (a conversation) and replies as a model would, in the form asked for.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson

from gavel.fashion.conversation import Conversation
from gavel.fashion.phrases import Phrasebook
from gavel.fashion.prompts import files_hash
from gavel.fashion.vocabulary import ATTRIBUTES, Vocabulary, load_vocabulary
from gavel.inference.request import Request
from gavel.text.keywords import REVISION as YAKE
from gavel.text.keywords import keywords

VERSION = "1"
"""Raised whenever a rule would say something else of the same conversation."""

_FIRST = {"casual": 3, "indecisive": 1, "rude": 2}
"""Properties that a customer names in the first message; later two at a time, an indecisive one only one."""
_SEARCHES_OF_THEME = 2
"""Searches after which a customer with a theme is content."""
_PATIENCE = 4
"""Exchanges beyond the naming of all properties after which a customer gives up."""
_FEWEST = 2
"""Properties the scripted assistant wants before it searches for something that is no theme."""

_LATIN = "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor"
_GREEK = "λορεμ ιψουμ δολορ σιτ αμετ κονσεκτετουρ αδιπισκινγκ ελιτ σεδ δο εϊουσμοντ τεμπορ"
_LOREM_WORDS = 5


class Scripts:
    """The rules, over the vocabulary and the phrasebook in `folder`. Raises FashionError."""

    def __init__(self, folder: Path) -> None:
        self.vocabulary: Vocabulary = load_vocabulary(folder)
        self.phrases = Phrasebook(folder / "phrases.yaml", self.vocabulary)
        self.revision = f"scripted-{VERSION}-{files_hash(folder)}"

    def customer(self, request: Request) -> str:
        """A customer who names properties bit by bit, and is content with an item that has them all."""
        line, end = self._line(request.subject, request.request_hash)
        return _json({"message": line, "end": end})

    def assistant(self, request: Request) -> str:
        """An assistant who searches for every term of the vocabulary that the customer has used."""
        conversation: Conversation = request.subject
        queries = self._queries(conversation, _FEWEST)
        if queries:
            return _json({"action": "search", "message": "", "queries": queries})
        asks = self.phrases.say("assistant.ask", conversation.language)
        return _json({"action": "message", "message": asks, "queries": []})

    def query(self, request: Request) -> str:
        """The assistant's query for the whole conversation; the first word said where it knows none."""
        return _json({"query": " ".join(self._queries(request.subject, 1)[:1])})

    def _line(self, conversation: Conversation, chance: str) -> tuple[str, str]:
        """What the customer says next and whether that ends the conversation; `chance` picks the phrasing."""
        goal, turns = conversation.goal, conversation.turns

        def say(what: str, wish: Mapping[str, str] | None = None, theme: str | None = None) -> str:
            key = f"customer.{goal.personality or 'template'}.{what}"
            choice = random.Random(chance).randrange(self.phrases.choices(key))
            return self.phrases.say(key, conversation.language, wish, theme, choice)

        if goal.customer_kind == "template":
            return say("open", goal.properties), "no"
        if goal.theme is not None:
            searches = len(conversation.searches())
            if searches >= _SEARCHES_OF_THEME:
                return say("success"), "success"
            if len(turns) > _PATIENCE:
                return say("no_progress"), "no_progress"
            return say("again") if searches else say("theme", theme=goal.theme), "no"
        # What a shopper says first is what it is; the rest follows in the order of the goal.
        order = ["apparel", *(name for name in goal.properties if name != "apparel")]
        step = 1 if goal.personality == "indecisive" else 2
        first = _FIRST[str(goal.personality)]
        bounds = [0, *range(first, len(order), step), len(order)]
        if len(turns) < len(bounds) - 1:
            named = order[bounds[len(turns)] : bounds[len(turns) + 1]]
            wish = {name: goal.properties[name] for name in ATTRIBUTES if name in named}
            return say("more" if turns else "item", wish), "no"
        if turns[-1].action == "search":
            return say("success"), "success"
        if len(turns) >= len(bounds) - 1 + _PATIENCE:
            return say("no_progress"), "no_progress"
        return say("again"), "no"

    def _queries(self, conversation: Conversation, fewest: int) -> list[str]:
        said = " . ".join(turn.customer for turn in conversation.turns)
        language = conversation.language
        theme = self.vocabulary.theme_in(said, language)
        if theme is not None:
            return [f"{theme.name} outfit", f"{theme.name} shoes"]
        found = self.vocabulary.found(said, language)
        if len(found) < fewest:
            return []
        # As shoppers type: the brand first, the size last.
        names = ["brand", *(name for name in ATTRIBUTES if name != "brand")]
        return [" ".join(found[name] for name in names if name in found)]


def baseline(kind: str, vocabulary: Vocabulary) -> tuple[Callable[[Request], str], str]:
    """The rule of a baseline that writes one query for a conversation, and its revision."""
    if kind == "yake":
        return _yake, YAKE
    if kind == "popularity":
        return _popularity(vocabulary.popular), f"popularity-{_json(vocabulary.popular)}"
    if kind == "lorem":
        return _lorem, f"lorem-1-{_LOREM_WORDS}"
    raise AssertionError(kind)


def _yake(request: Request) -> str:
    conversation: Conversation = request.subject
    text = ". ".join(turn.customer for turn in conversation.turns)
    return _json({"query": " ".join(keywords(text, conversation.language))})


def _popularity(popular: Mapping[str, str]) -> Callable[[Request], str]:
    return lambda request: _json({"query": popular[request.subject.language]})


def _lorem(request: Request) -> str:
    """Words without meaning, in the alphabet of the language, by chance that the request decides."""
    conversation: Conversation = request.subject
    words = (_GREEK if conversation.language == "el" else _LATIN).split()
    chance = random.Random(request.request_hash)
    return _json({"query": " ".join(chance.sample(words, _LOREM_WORDS))})


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()
