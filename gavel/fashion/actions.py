"""Reading what the parties of a conversation reply: a customer's line, an assistant's action, a query.

A reply that cannot be used has faults and is asked again; what can be used in spite of a slip has notes. Both
are counted by name. Nothing is guessed: text that is no action is none.
"""

from __future__ import annotations

import re
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
    "malformed_action": "the reply is no object of the form asked for",
    "role_switch": "the reply speaks for the other side",
    "no_query": "a search, or a whole conversation, without any query",
    "empty_message": "a message without text",
    "prefix": "a speaker's name in front of the text; it is taken off",
    "empty_query": "a blank query among others; it is left out",
    "url": "a web address in a message of the assistant",
    **{code: FAULTS[code] for code in _ON_THE_WAY},
}
"""Every failure of a party, with its meaning. All but SLIPS are asked again within the attempts allowed."""

SLIPS = ("prefix", "empty_query", "url")
"""Failures that leave the reply usable."""

End = Literal["no", "success", "no_progress"]
ENDS = ("no", "success", "no_progress")

_ASSISTANT = r"assistant|agent|bot|system|assistent|assistentin|βοηθός"
_CUSTOMER = r"customer|user|client|human|shopper|kunde|kundin|utilisateur|πελάτης"
_PREFIX = {
    side: re.compile(rf"^[\s*_#\[(]*(?:{names})[\s*_\])]*[:：][\s*_]*", re.IGNORECASE)
    for side, names in (("assistant", _ASSISTANT), ("customer", _CUSTOMER))
}
_OTHER = {"assistant": "customer", "customer": "assistant"}
_URL = re.compile(r"https?://|\bwww\.\w", re.IGNORECASE)
_LONGEST_QUERY = 100_000
"""Characters kept of one query; no search box takes more, and no measure reads more."""


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
    action.kind = kind
    action.text = _text(found, "message", "assistant", action)
    if _URL.search(action.text):
        action.notes.append("url")
    if kind == "search":
        action.queries = _queries(found.get("queries"), action)
    elif not action.text and not action.faults:
        action.faults.append(Fault("empty_message", "message: is empty"))
    return action


def read_query(answer: Mapping[str, Any]) -> Action:
    """The one query written for a whole conversation, as a search of that query."""
    action = Action("search")
    found = _object(answer, "assistant", action)
    if found is not None:
        query = found.get("query")
        action.queries = _queries([query] if isinstance(query, str) else query, action)
    return action


def _object(
    answer: Mapping[str, Any], side: Literal["assistant", "customer"], reply: Line | Action
) -> Mapping[str, Any] | None:
    text = answer["text"] or ""
    if _PREFIX[side].match(text):
        reply.notes.append("prefix")
    found, _, fault = read_object(answer)
    switched = any(_PREFIX[_OTHER[side]].match(line) for line in text.splitlines())
    if switched:
        reply.faults.append(Fault("role_switch", f"speaks for the {_OTHER[side]}"))
        return None
    if fault is not None:
        code = "malformed_action" if fault.code == "not_json" else fault.code
        reply.faults.append(Fault(code, fault.detail))
    return found


def _text(
    found: Mapping[str, Any],
    name: str,
    side: Literal["assistant", "customer"],
    reply: Line | Action,
) -> str:
    """The text under `name`, without the speaker's own name before it."""
    value = found.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        reply.faults.append(Fault("malformed_action", f"{name}: {value!r} is no text"))
        return ""
    text = _storable(value).strip()
    if any(_PREFIX[_OTHER[side]].match(line) for line in text.splitlines()):
        reply.faults.append(Fault("role_switch", f"{name}: speaks for the {_OTHER[side]}"))
    if match := _PREFIX[side].match(text):
        reply.notes.append("prefix")
        text = text[match.end() :].strip()
    return text


def _queries(value: Any, action: Action) -> list[str]:
    if value is None:
        value = []
    if not isinstance(value, list) or not all(isinstance(query, str) for query in value):
        action.faults.append(
            Fault("malformed_action", f"queries: {str(value)[:200]!r} is no list of texts")
        )
        return []
    kept = [" ".join(_storable(query).split())[:_LONGEST_QUERY] for query in value]
    queries = [query for query in kept if query]
    if not queries:
        action.faults.append(Fault("no_query", "queries: none holds a word"))
    elif len(queries) < len(kept):
        action.notes.append("empty_query")
    return queries


def _storable(text: str) -> str:
    """`text` as Unicode; JSON can spell half a surrogate pair, which no table can hold."""
    return text.encode("utf-8", "replace").decode()
