"""Reading what the parties of a conversation reply: a customer's line, an assistant's action, a query.

A reply that cannot be used has faults and is asked again; what can be used in spite of a slip has notes. Both
are counted by name. Nothing is guessed: text that is no action is none.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from gavel.judge.prompts import Fault
from gavel.judge.verdicts import FAULTS, read_object

_ON_THE_WAY = (
    *("truncated", "empty_response", "refused", "context_overflow", "content_filter"),
    *("timeout", "transport"),
)
FAILURES = {
    "malformed_action": "the reply is no object of the form asked for, a message with queries, or has too many",
    "role_switch": "the reply speaks for the other side",
    "no_query": "a search, or a whole conversation, without any query",
    "empty_message": "a message without text",
    "prefix": "a speaker's name in front of the text; it is taken off",
    "empty_query": "a query without letter or digit among others; it is left out",
    "url": "a web address in a message of the assistant",
    **{code: FAULTS[code] for code in _ON_THE_WAY},
}
"""Every failure of a party, with its meaning. All but SLIPS are asked again within the attempts allowed."""

SLIPS = ("prefix", "empty_query", "url")
"""Failures that leave the reply usable."""

End = Literal["no", "success", "no_progress", "replayed"]
ENDS = ("no", "success", "no_progress")
"""How a customer may say that it ends the conversation; a recorded one is at the end of its lines."""

Side = Literal["assistant", "customer"]
_NAMES: dict[Side, str] = {
    "assistant": "assistant, shop assistant, shopping assistant, sales assistant, AI, AI assistant, agent, bot, "
    "chatbot, system, seller, assistent, assistentin, verkäufer, verkäuferin, berater, beraterin, KI, assistante, "
    "vendeur, vendeuse, conseiller, conseillère, IA, βοηθός, πωλητής, πωλήτρια",
    "customer": "customer, user, client, human, shopper, buyer, kunde, kundin, nutzer, nutzerin, cliente, "
    "utilisateur, utilisatrice, acheteur, acheteuse, πελάτης, πελάτισσα, χρήστης",
}
"""By which names a side is called in front of a text."""
_NAMED = re.compile(r"[\s*_#\[(]*([^\W\d_](?:[^\W_]|\s){0,30}?)[\s*_\])]*[:：][\s*_]*")
_URL = re.compile(r"https?://|\bwww\.\w", re.IGNORECASE)
_LONGEST_QUERY = 100_000
"""Characters kept of one query; no search box takes more, and no measure reads more."""


_MOST_QUERIES = 10
"""Queries of one search at most: each is searched for, embedded and scored."""


def _folded(name: str) -> str:
    """A name without case and accents: capitals are written without these in Greek and in French."""
    parts = unicodedata.normalize("NFD", " ".join(name.split()).casefold())
    return "".join(part for part in parts if not unicodedata.combining(part))


_SIDES = {_folded(name): side for side, names in _NAMES.items() for name in names.split(", ")}


def speaker(text: str) -> tuple[Side, int] | None:
    """Whose name stands in front of `text`, and where the text itself begins; None where no name does."""
    match = _NAMED.match(text)
    side = None if match is None else _SIDES.get(_folded(match[1]))
    return None if match is None or side is None else (side, match.end())


def speaks_for(text: str, side: Side) -> bool:
    """Whether a line of `text` has the name of `side` in front."""
    return any(found[0] == side for line in text.splitlines() if (found := speaker(line)))


_OTHER: dict[Side, Side] = {"assistant": "customer", "customer": "assistant"}


@dataclass(slots=True)
class Line:
    """What a customer wrote, and whether that ends the conversation."""

    text: str = ""
    end: End = "no"
    faults: list[Fault] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Action:
    """What an assistant did: wrote `text`, or put `queries` to the search engine."""

    kind: Literal["message", "search"] | None = None
    text: str = ""
    queries: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def usable(reply: Line | Action) -> bool:
    """Whether a reply can be used as it is read."""
    return not reply.faults


def read_line(answer: Mapping[str, Any]) -> Line:
    """A customer's reply. The closing words of a conversation may be empty."""
    line = Line()
    found = _object(answer, "customer", line)
    if found is None:
        return line
    end = found.get("end")
    if end not in ENDS:
        line.faults.append(Fault("malformed_action", f"end: {end!r} is none of {', '.join(ENDS)}"))
        return line
    line.end = end
    line.text = _text(found, "message", "customer", line)
    if not line.text and line.end == "no" and not line.faults:
        line.faults.append(Fault("empty_message", "message: is empty"))
    if "[ITEMS]" in line.text:
        line.faults.append(Fault("role_switch", "message: shows items, which only the shop does"))
    return line


def read_action(answer: Mapping[str, Any]) -> Action:
    """An assistant's reply. A search may come with a text, which is kept."""
    action = Action()
    found = _object(answer, "assistant", action)
    if found is None:
        return action
    kind = found.get("action")
    if kind not in ("message", "search"):
        action.faults.append(
            Fault("malformed_action", f"action: {kind!r} is neither message nor search")
        )
        return action
    action.kind, given = kind, found.get("queries")
    action.text = _text(found, "message", "assistant", action)
    if _URL.search(action.text):
        action.notes.append("url")
    if kind == "search":
        action.queries = _queries(given, action)
    elif any(map(_says, given)) if isinstance(given, list) else given:
        action.faults.append(
            Fault(
                "malformed_action", "queries: a message has none; choose one of message and search"
            )
        )
    elif not action.text and not action.faults:
        action.faults.append(Fault("empty_message", "message: is empty"))
    return action


def read_query(answer: Mapping[str, Any]) -> Action:
    """The one query written for a whole conversation, as a search of that query."""
    action = Action("search")
    found = _object(answer, "assistant", action)
    if found is not None:
        query = found.get("query")
        if query is None or isinstance(query, str):
            action.queries = _queries([query or ""], action)
        else:
            action.faults.append(
                Fault(
                    "malformed_action", f"query: {str(query)[:200]!r} is no text; one is asked for"
                )
            )
    return action


def _object(
    answer: Mapping[str, Any], side: Side, reply: Line | Action
) -> Mapping[str, Any] | None:
    text = answer["text"] or ""
    if (named := speaker(text)) and named[0] == side:
        reply.notes.append("prefix")
    found, _, fault = read_object(answer)
    if speaks_for(text, _OTHER[side]):
        reply.faults.append(Fault("role_switch", f"speaks for the {_OTHER[side]}"))
        return None
    if fault is not None:
        code = "malformed_action" if fault.code == "not_json" else fault.code
        reply.faults.append(Fault(code, fault.detail))
    return found


def _text(
    found: Mapping[str, Any],
    name: str,
    side: Side,
    reply: Line | Action,
) -> str:
    """The text under `name`, without the speaker's own name before it."""
    value = found.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        reply.faults.append(Fault("malformed_action", f"{name}: {value!r} is no text"))
        return ""
    return _own_text(_storable(value).strip(), name, side, reply)


def _own_text(text: str, name: str, side: Side, reply: Line | Action) -> str:
    """`text` without the speaker's own name before it; that of the other side is a fault."""
    if speaks_for(text, _OTHER[side]):
        reply.faults.append(Fault("role_switch", f"{name}: speaks for the {_OTHER[side]}"))
    if (named := speaker(text)) and named[0] == side:
        reply.notes.append("prefix")
        text = text[named[1] :].strip()
    return text


def _queries(value: Any, action: Action) -> list[str]:
    if value is None:
        value = []
    if not isinstance(value, list) or not all(isinstance(query, str) for query in value):
        action.faults.append(
            Fault("malformed_action", f"queries: {str(value)[:200]!r} is no list of texts")
        )
        return []
    if len(value) > _MOST_QUERIES:
        action.faults.append(
            Fault(
                "malformed_action",
                f"queries: {len(value):,} of them; accepted: {_MOST_QUERIES} at most",
            )
        )
        return []
    kept = [_own_text(_storable(query), "queries", "assistant", action) for query in value]
    queries = [" ".join(query.split())[:_LONGEST_QUERY] for query in kept if _says(query)]
    if not queries:
        action.faults.append(Fault("no_query", "queries: none holds a word"))
    elif len(queries) < len(kept):
        action.notes.append("empty_query")
    return queries


def _says(query: Any) -> bool:
    """Whether a query says anything: it holds a letter or a digit. What is no text at all counts as such."""
    return any(map(str.isalnum, query)) if isinstance(query, str) else query is not None


def _storable(text: str) -> str:
    """`text` as Unicode; JSON can spell half a surrogate pair, which no table can hold."""
    return text.encode("utf-8", "replace").decode()
