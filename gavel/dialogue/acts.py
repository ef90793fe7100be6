"""Dialogues given as goals and dialogue acts: the input of the DSTC8 Track 1 evaluation.

A file maps dialogue ids to `goal` and turns. Turns are ConvLab's `log`, customer and system by turns,
each with `dialog_act`; or `turns`, each an object with the acts of `user` and `system`. Acts are
`{"Hotel-Inform": [["Area", "north"]]}` or a list of [intent, domain, slot, value].
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gavel.dialogue.predictions import HALF, content_hash, is_text
from gavel.errors import PredictionError


@dataclass(frozen=True)
class Act:
    """One dialogue act, lower-case but for its value: `hotel`, `inform`, `area`, `north`."""

    domain: str
    intent: str
    slot: str
    value: str


@dataclass(frozen=True)
class ActGoal:
    """What the customer wants of one domain; `requests` maps slots to their answers, where known."""

    info: Mapping[str, str]
    book: Mapping[str, Any]
    requests: Mapping[str, str | None]


@dataclass(frozen=True)
class Exchange:
    """One turn: what the customer said, and what the system answered."""

    user: Sequence[Act]
    system: Sequence[Act]


@dataclass(frozen=True)
class ActDialogue:
    """One dialogue with its goal, by domain."""

    goal: Mapping[str, ActGoal]
    exchanges: Sequence[Exchange]


@dataclass(frozen=True)
class ActPredictions:
    """The dialogues that one system held; `fingerprint` is the file's content hash."""

    system: str
    dialogues: Mapping[str, ActDialogue]
    fingerprint: str


def holds_acts(document: Mapping[str, Any]) -> bool:
    """Whether a prediction file is one of goals and acts rather than of responses."""
    first = next(iter(document.values()))
    return isinstance(first, dict) and "goal" in first


def parse_acts(path: Path, document: Mapping[str, Any]) -> ActPredictions:
    """The dialogues of a file that was read.

    Raises:
        PredictionError: it is malformed; file, dialogue and turn are named.
    """
    dialogues = {}
    for name, content in document.items():
        where = f"{path}: dialogue {name!r}"
        if not isinstance(content, dict) or not isinstance(content.get("goal"), dict):
            raise PredictionError(f"{where}: must be an object with a goal and a log or turns")
        try:
            if not is_text(json.dumps(content["goal"], ensure_ascii=False)):
                raise ValueError(f"the goal {HALF}")
            goal = {
                domain.lower(): _goal(domain, wanted)
                for domain, wanted in content["goal"].items()
                if isinstance(wanted, dict) and wanted
            }
        except ValueError as error:
            raise PredictionError(f"{where}: {error}") from error
        exchanges = []
        for number, (user, system) in enumerate(_pairs(where, content), 1):
            try:
                exchanges.append(Exchange(_acts(user), _acts(system)))
            except ValueError as error:
                raise PredictionError(f"{where}, turn {number}: {error}") from error
        dialogues[name] = ActDialogue(goal, exchanges)
    return ActPredictions(path.stem, dialogues, content_hash(path))


def _pairs(where: str, content: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    turns = content.get("turns", content.get("log"))
    if not isinstance(turns, list) or not turns or not all(isinstance(t, dict) for t in turns):
        raise PredictionError(f"{where}: log, or turns, must be a list of at least one object")
    if "turns" in content:
        return [(turn.get("user", []), turn.get("system", [])) for turn in turns]
    acts = [turn.get("dialog_act", turn.get("dialogue_acts", {})) for turn in turns]
    # A customer's last word may have no answer.
    return list(zip(acts[::2], [*acts[1::2], *([[]] * (len(acts) % 2))], strict=True))


def _goal(domain: str, wanted: Mapping[str, Any]) -> ActGoal:
    info, book, requests = (wanted.get(part) or {} for part in ("info", "book", "reqt"))
    if not isinstance(info, dict) or not isinstance(book, dict):
        raise ValueError(f"goal.{domain}: info and book must map slots to values")
    if not isinstance(requests, dict | list):
        raise ValueError(f"goal.{domain}.reqt must be a list of slots, or map them to answers")
    answers = requests if isinstance(requests, dict) else dict.fromkeys(requests)
    return ActGoal(
        {slot: str(value) for slot, value in info.items()},
        book,
        {slot: None if value in (None, "?", "") else str(value) for slot, value in answers.items()},
    )


def _acts(given: Any) -> list[Act]:
    """Acts in either form. Raises ValueError."""
    if isinstance(given, dict):
        found = []
        for name, pairs in given.items():
            domain, dash, intent = name.partition("-")
            if not dash or not isinstance(pairs, list):
                raise ValueError(f"the act {name!r} must be Domain-Intent with a list of slots")
            for pair in pairs:
                if not isinstance(pair, list) or len(pair) != 2:
                    raise ValueError(f"the act {name!r} holds {pair!r}, not [slot, value]")
                found.append(_act(intent, domain, *pair))
        return found
    if not isinstance(given, list):
        raise ValueError(f"acts must be an object or a list, found {given!r}")
    for act in given:
        if not isinstance(act, list) or len(act) != 4:
            raise ValueError(f"the act {act!r} must be [intent, domain, slot, value]")
    return [_act(*act) for act in given]


def _act(intent: Any, domain: Any, slot: Any, value: Any) -> Act:
    return Act(str(domain).lower(), str(intent).lower(), str(slot).lower(), str(value))
