"""A system's prediction file: dialogue id -> turns, each a response with what the system believed.

A turn is one of:

- an object with `response`, and optionally `state` (domain -> slot -> value), `active_domains`, and
  `database` (domain -> names or ids of the results that the system was given);
- the sequential form: an object or a list of three, belief state, actions, response, or one string
  with markers (`<sos_b> ... <eos_b> <sos_a> ... <eos_a> <sos_r> ... <eos_r>` or `<|belief|> ...
  <|endofbelief|>`). A belief is written `[hotel] area north stars 4` or `hotel area north, ...`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gavel.dialogue.corpus import State, plain_id
from gavel.dialogue.normalise import DOMAINS
from gavel.errors import PredictionError

_STAY = ("day", "people", "stay", "time")
_BOOKING = tuple(f"{book}{slot}" for book in ("", "book", "book ") for slot in _STAY)
_TRAVEL = (
    "destination",
    "departure",
    "arrive",
    "arriveby",
    "arrive by",
    "leave",
    "leaveat",
    "leave at",
)
_PLACE = ("name", "area", "type", "pricerange", "price range")
BELIEF_SLOTS: Mapping[str, tuple[str, ...]] = {
    "restaurant": (*_PLACE, "food", *_BOOKING),
    "hotel": (*_PLACE, "stars", "internet", "parking", *_BOOKING),
    "attraction": _PLACE,
    "train": (*_TRAVEL, *_BOOKING),
    "taxi": _TRAVEL,
    "hospital": ("department",),
    "police": (),
}
"""Slot names that a belief written as text may hold, by domain: elsewhere they may be words of a value."""

_MARKED = re.compile(
    r"<sos_(?P<ubar>[abr])>(?P<u>.*?)<eos_(?P=ubar)>"
    r"|<\|(?P<simple>belief|action|response)\|>(?P<s>.*?)<\|endof(?P=simple)\|>",
    re.DOTALL,
)
_PARTS = {"b": "belief", "a": "action", "r": "response"}
_SLOT_START = {
    domain: re.compile(
        r"\b(" + "|".join(sorted(map(re.escape, slots), key=len, reverse=True)) + r")\b"
    )
    for domain, slots in BELIEF_SLOTS.items()
    if slots
}


@dataclass(frozen=True)
class Turn:
    """One system turn. `state`, `active_domains` and `results` are None where the file has none."""

    response: str
    state: State | None = None
    active_domains: tuple[str, ...] | None = None
    results: Mapping[str, tuple[str, ...]] | None = None


@dataclass(frozen=True)
class Predictions:
    """What one system said in every dialogue of its file; `fingerprint` is the file's content hash."""

    system: str
    dialogues: Mapping[str, Sequence[Turn]]
    fingerprint: str


class _Repeated(ValueError):
    pass


HALF = "holds half a surrogate pair, which is no text; accepted: valid Unicode"


def is_text(text: str) -> bool:
    """Whether `text` can be written: JSON's escapes can make halves of surrogate pairs, which cannot."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def content_hash(path: Path) -> str:
    """The fingerprint of a prediction file: a hash of its bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def read_document(path: Path) -> dict[str, Any]:
    """The top of a prediction file: dialogue ids, each with its content.

    Raises:
        PredictionError: the file cannot be read, is no JSON object, or has a key twice.
    """
    try:
        document = json.loads(path.read_bytes(), object_pairs_hook=_unique)
    except OSError as error:
        raise PredictionError(f"{path}: cannot be read ({error.strerror})") from error
    except _Repeated as error:
        raise PredictionError(f"{path}: {error} stands there more than once") from error
    except (ValueError, RecursionError) as error:
        raise PredictionError(f"{path}: is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise PredictionError(f"{path}: must be an object of dialogue ids, found {_kind(document)}")
    if not document:
        raise PredictionError(f"{path}: holds no dialogue; accepted: one or more, by their ids")
    plain: dict[str, Any] = {}
    for name, content in document.items():
        if not is_text(name):
            raise PredictionError(f"{path}: dialogue {name!r}: {HALF}")
        if plain_id(name) in plain:
            raise PredictionError(
                f"{path}: dialogue {plain_id(name)!r} stands there more than once"
            )
        plain[plain_id(name)] = content
    return plain


def read_predictions(path: Path) -> Predictions:
    """The predictions of the system that `path` is named after.

    Raises:
        PredictionError: the file is malformed; file, dialogue and turn are named.
    """
    return parse_predictions(path, read_document(path))


def parse_predictions(path: Path, document: Mapping[str, Any]) -> Predictions:
    """The same from a file that was read. Raises PredictionError."""
    dialogues = {}
    for name, turns in document.items():
        if not isinstance(turns, list) or not turns:
            raise PredictionError(
                f"{path}: dialogue {name!r}: must be a list of at least one turn, found {_kind(turns)}"
            )
        parsed = []
        for number, turn in enumerate(turns, 1):
            try:
                parsed.append(_turn(turn))
            except ValueError as error:
                raise PredictionError(
                    f"{path}: dialogue {name!r}, turn {number}: {error}"
                ) from error
        dialogues[name] = tuple(parsed)
    return Predictions(path.stem, dialogues, content_hash(path))


def _turn(turn: Any) -> Turn:
    """One turn in any of its forms. Raises ValueError."""
    if isinstance(turn, str):
        parts = {
            found["simple"] or _PARTS[found["ubar"]]: (found["s"] or found["u"] or "").strip()
            for found in _MARKED.finditer(turn)
        }
        if "response" not in parts:
            raise ValueError(
                "a turn of one text needs a marked response, <sos_r> ... <eos_r> or "
                f"<|response|> ... <|endofresponse|>; found {turn[:60]!r}"
            )
        return Turn(parts["response"], parse_belief(parts["belief"]) if "belief" in parts else None)
    if isinstance(turn, list):
        if len(turn) != 3 or not all(isinstance(part, str) for part in turn):
            raise ValueError("a turn that is a list must be three texts: belief, actions, response")
        return Turn(turn[2], parse_belief(turn[0]))
    if not isinstance(turn, dict):
        raise ValueError(f"must be an object with a response, found {_kind(turn)}")
    if not isinstance(response := turn.get("response"), str):
        raise ValueError(
            f"response must be text, found {_kind(response)}"
            if "response" in turn
            else f"has no response; its keys are {', '.join(map(repr, turn)) or 'none'}"
        )
    belief = next((turn[key] for key in ("state", "belief_state", "belief") if key in turn), None)
    return Turn(
        response,
        None if belief is None else _state(belief),
        None if (given := turn.get("active_domains")) is None else _names("active_domains", given),
        None if (given := turn.get("database")) is None else _results(given),
    )


def _state(state: Any) -> State:
    if isinstance(state, str):
        return parse_belief(state)
    if not isinstance(state, dict):
        raise ValueError(f"state must map domains to slots, found {_kind(state)}")
    for domain, slots in state.items():
        if not isinstance(slots, dict):
            raise ValueError(f"state.{domain} must map slots to values, found {_kind(slots)}")
        for slot, value in slots.items():
            if value is not None and not isinstance(value, str):
                raise ValueError(f"state.{domain}.{slot} must be text, found {_kind(value)}")
    return state


def parse_belief(text: str) -> State:
    """A belief state written as text: `[hotel] area north stars 4`, or `hotel area north, ...`.

    Raises:
        ValueError: a part of it names no domain, or no slot that is known.
    """
    state: dict[str, dict[str, str | None]] = {}
    for domain, slots in _by_domain(text.strip()):
        starts = _starts(domain, slots)
        if slots.strip() and (not starts or slots[: starts[0].start()].strip()):
            raise ValueError(
                f"the belief {slots.strip()[:60]!r} of {domain} begins with no known slot; "
                f"accepted: {', '.join(BELIEF_SLOTS[domain]) or 'none'}"
            )
        ends = [*(start.start() for start in starts[1:]), len(slots)]
        for start, end in zip(starts, ends, strict=False):
            value = slots[start.end() : end].strip(" =:,;")
            state.setdefault(domain, {})[start[1].replace(" ", "")] = value
    return state


def _starts(domain: str, slots: str) -> list[re.Match[str]]:
    """Where the slots begin. A slot's name without a value, or a second time, is a word of a value."""
    starts: list[re.Match[str]] = []
    found = list(_SLOT_START[domain].finditer(slots)) if domain in _SLOT_START else []
    for start in found:
        has_value = slots[start.end() :].strip(" =:,;")
        follows = not starts or slots[starts[-1].end() : start.start()].strip(" =:")
        if has_value and follows and start[1] not in {earlier[1] for earlier in starts}:
            starts.append(start)
    return starts


def _by_domain(text: str) -> list[tuple[str, str]]:
    if "[" in text:
        pieces = re.split(r"\[(\w+)\]", text)
        if pieces[0].strip():
            raise ValueError(f"the belief {text[:60]!r} must begin with a [domain]")
        pairs = list(zip(pieces[1::2], pieces[2::2], strict=True))
    else:
        pairs = []
        for piece in filter(None, (part.strip() for part in re.split(r"[,;]", text))):
            domain, _, slots = piece.partition("-" if re.match(r"\w+-", piece) else " ")
            pairs.append((domain, slots))
    if unknown := [domain for domain, _ in pairs if domain not in DOMAINS]:
        raise ValueError(
            f"the belief names {unknown[0]!r}, which is no domain; accepted: {', '.join(DOMAINS)}"
        )
    return pairs


def _names(key: str, given: Any) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        raise ValueError(f"{key} must be a list of texts, found {_kind(given)}")
    return tuple(given)


def _results(given: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(given, dict):
        raise ValueError(
            f"database must map domains to lists of names or ids, found {_kind(given)}"
        )
    return {domain: _names(f"database.{domain}", names) for domain, names in given.items()}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Repeated(repr(key))
            seen.add(key)
    return found


def _kind(value: Any) -> str:
    names = {
        dict: "an object",
        list: "a list",
        str: "text",
        bool: "true or false",
        type(None): "null",
    }
    return names.get(type(value), "a number" if isinstance(value, int | float) else "nothing")
