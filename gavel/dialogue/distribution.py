"""The original files of MultiWOZ 2.0, 2.1 and 2.2, and ConvLab's copies, as a corpus.

- 2.0 and 2.1: `data.json` (or ConvLab's `test.json`, plain or zipped): goals, texts, belief states and,
  from 2.1, the spans of slot values in the text. `testListFile.txt` or `.json`, where there is one, says
  which dialogues are evaluated.
- 2.2: `dialogues_*.json` and `dialog_acts.json`, with a `data.json` beside them: 2.2 has no goals and no
  bookings of its own.

References are delexicalised by the spans; without spans, by the databases.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from gavel.dialogue import normalise
from gavel.dialogue.corpus import (
    Corpus,
    DomainGoal,
    Goal,
    State,
    database_folder,
    plain_id,
    read_json,
)
from gavel.dialogue.database import Database, load_database
from gavel.dialogue.lexical import Lexicon
from gavel.errors import CorpusError

_DATA = ("data.json", "test.json", "data.json.zip", "test.json.zip")
_TEST_LISTS = ("testListFile.txt", "testListFile.json")
_DIALOGUES, _ACTS = "dialogues_*.json", "dialog_acts.json"
_REQUESTABLE = {
    **{"phone": "PHONE", "address": "ADDRESS", "postcode": "POST", "trainID": "TRAINID"},
}
# Slots of dialogue acts, by the slot name that a delexicalised response has.
_ACT_SLOTS = {
    **{"addr": "address", "post": "postcode", "ref": "reference", "dest": "destination"},
    **{"depart": "departure", "leave": "leaveat", "arrive": "arriveby", "id": "trainid"},
    **{"ticket": "price", "fee": "price", "open": "openhours", "none": ""},
}
_UNSET = {"", "not mentioned", "none", *normalise.DONTCARE}


def load_distribution(folder: Path) -> Corpus:
    """The corpus of the original files in `folder`.

    Raises:
        CorpusError: the files are not there, or not of any known version.
    """
    data = next((folder / name for name in _DATA if (folder / name).exists()), None)
    if data is None:
        raise CorpusError(
            f"{folder}: holds no corpus; accepted: goals.json with references.json, states.json and "
            f"booked_domains.json, or one of {', '.join(_DATA)} (MultiWOZ 2.0 and 2.1), for 2.2 besides "
            "dialogues_*.json and dialog_acts.json"
        )
    database = load_database(database_folder(folder))
    try:
        corpus = _from_log(_chosen(folder, _read(data)), database)
        newer = sorted(folder.rglob(_DIALOGUES))
        if newer:
            corpus = _from_frames(newer, read_json(folder / _ACTS), corpus)
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise CorpusError(
            f"{data}: is not of the form of MultiWOZ 2.0 to 2.2 ({error!r})"
        ) from error
    return corpus


def distribution_files(folder: Path) -> list[Path]:
    """The original files in `folder`, without the databases."""
    names = (*_DATA, *_TEST_LISTS, _ACTS)
    return [
        *(path for name in names if (path := folder / name).exists()),
        *sorted(folder.rglob(_DIALOGUES)),
    ]


def _read(path: Path) -> dict[str, Any]:
    if path.suffix != ".zip":
        found = read_json(path)
    else:
        with zipfile.ZipFile(path) as archive:
            found = orjson.loads(archive.read(path.stem))
    if not isinstance(found, dict):
        raise CorpusError(f"{path}: must map dialogue ids to goal and log")
    return found


def _chosen(folder: Path, data: Mapping[str, Any]) -> dict[str, Any]:
    """The dialogues to evaluate: those of the test list, or all."""
    listed = next((folder / name for name in _TEST_LISTS if (folder / name).exists()), None)
    plain = {plain_id(name): content for name, content in data.items()}
    if listed is None:
        return plain
    names = [plain_id(line.strip()) for line in io.StringIO(listed.read_text()) if line.strip()]
    if absent := [name for name in names if name not in plain]:
        raise CorpusError(f"{listed}: names {absent[0]!r}, which the data lacks")
    return {name: plain[name] for name in names}


def _from_log(data: Mapping[str, Any], database: Database) -> Corpus:
    """2.0 and 2.1: turns alternate, customer first; belief states stand with the system's turns."""
    lexicon: Lexicon | None = None
    references, states, booked, texts = {}, {}, {}, {}
    for name, dialogue in data.items():
        system = dialogue["log"][1::2]
        said = []
        for turn in system:
            if "span_info" in turn:
                said.append(_delexicalised(turn["text"], turn["span_info"]))
            else:
                lexicon = lexicon or Lexicon(database)
                said.append(lexicon.hear(turn["text"]).delexicalised)
        references[name] = [normalise.response(text) for text in said]
        states[name] = [_state(turn["metadata"]) for turn in system]
        booked[name] = [_booked(turn["metadata"]) for turn in system]
        texts[name] = [
            (user["text"], turn["text"])
            for user, turn in zip(dialogue["log"][::2], system, strict=False)
        ]
    goals = {name: _goal(dialogue["goal"]) for name, dialogue in data.items()}
    return Corpus(goals, references, states, booked, database, "", texts)


def _goal(goal: Mapping[str, Any]) -> Goal:
    """The domains of a customer's instructions; a booking asks for its reference."""
    return {
        domain: DomainGoal(
            {
                normalise.slot_name(slot): given.lower()
                for slot, given in wanted.get("info", {}).items()
            },
            (
                *(_REQUESTABLE[slot] for slot in wanted.get("reqt", ()) if slot in _REQUESTABLE),
                *(["REFERENCE"] if "book" in wanted else []),
            ),
        )
        for domain, wanted in goal.items()
        if domain in normalise.DOMAINS and wanted
    }


def _delexicalised(text: str, spans: Iterable[Sequence[Any]]) -> str:
    """`text` with the spans of its words as slots; of two that overlap the first stays."""
    words = text.split()
    result: list[str] = []
    end = 0
    for _, slot, given, first, last in sorted(spans, key=lambda span: int(span[3])):
        if int(first) < end or given == "dontcare":
            continue
        plain = str(slot).lower()
        result += [*words[end : int(first)], f"[{_ACT_SLOTS.get(plain, plain)}]"]
        end = int(last) + 1
    return " ".join([*result, *words[end:]])


def _state(metadata: Mapping[str, Any]) -> State:
    states = {}
    for domain, parts in metadata.items():
        slots = {
            **parts["semi"],
            **{f"book{slot}": given for slot, given in parts["book"].items() if slot != "booked"},
        }
        # 2.1 separates alternatives by a bar; the first is the one said.
        known = {slot: str(given).split("|")[0] for slot, given in slots.items()}
        if kept := {slot: given for slot, given in known.items() if given not in _UNSET}:
            states[domain] = normalise.state(kept)
    return states


def _booked(metadata: Mapping[str, Any]) -> frozenset[str]:
    """The domains with a booking that has a reference; a taxi has none."""
    return frozenset(
        domain
        for domain, parts in metadata.items()
        if any("reference" in booking for booking in parts["book"].get("booked", ()))
    )


def _from_frames(files: Sequence[Path], acts: Mapping[str, Any], older: Corpus) -> Corpus:
    """2.2: texts, spans and states anew; goals and bookings of `older`, whose dialogues are chosen."""
    acts = {plain_id(name): turns for name, turns in acts.items()}
    references, states, texts = {}, {}, {}
    for path in files:
        for dialogue in json.loads(path.read_bytes()):
            name = plain_id(dialogue["dialogue_id"])
            if name not in older.goals:
                continue
            turns = dialogue["turns"]
            pairs = list(zip(turns[::2], turns[1::2], strict=False))
            references[name] = [
                normalise.response(
                    _by_characters(system["utterance"], acts[name][system["turn_id"]]["span_info"])
                )
                for _, system in pairs
            ]
            states[name] = [_frames(user["frames"]) for user, _ in pairs]
            texts[name] = [(user["utterance"], system["utterance"]) for user, system in pairs]
    if absent := [name for name in older.goals if name not in references]:
        raise CorpusError(
            f"{files[0].parent}: the dialogues of 2.2 lack {absent[0]!r} and {len(absent) - 1:,} others"
        )
    return replace(older, references=references, states=states, texts=texts)


def _by_characters(text: str, spans: Iterable[Sequence[Any]]) -> str:
    pieces, end = [], 0
    for _, slot, given, first, last in sorted(spans, key=lambda span: int(span[3])):
        if int(first) < end or given == "dontcare":
            continue
        pieces += [text[end : int(first)], f"[{slot}]"]
        end = int(last)
    return "".join([*pieces, text[end:]])


def _frames(frames: Iterable[Mapping[str, Any]]) -> State:
    states = {}
    for frame in frames:
        slots = {
            slot.split("-", 1)[1]: given[0]
            for slot, given in frame["state"]["slot_values"].items()
            if "dontcare" not in given
        }
        if slots:
            states[frame["service"]] = normalise.state(slots)
    return states
