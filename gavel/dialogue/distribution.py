"""The original files of MultiWOZ 2.0, 2.1 and 2.2, and ConvLab's copies, as a corpus.

- 2.0 and 2.1: `data.json` (or ConvLab's `test.json`, plain or zipped): goals, texts, belief states and,
  from 2.1, the spans of slot values in the text. `testListFile.txt` or `.json`, where there is one, says
  which dialogues are evaluated.
- 2.2: `dialogues_*.json` (of `test/`, where the splits have folders) and `dialog_acts.json`, with a
  `data.json` beside them: 2.2 has no goals and no bookings of its own. Without a test list, what 2.2 holds
  is evaluated.

References are delexicalised by the spans; without spans, by the databases.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
    log = _by_plain_id(data, _read(data))
    newer = _frames_of(_newer(folder))
    names = _listed(folder) or list(newer or log)
    for where, held in ((data, log), (folder / "dialogues_*.json", newer)):
        if held and (absent := [name for name in names if name not in held]):
            raise CorpusError(
                f"{where}: lacks {absent[0]!r} and {len(absent) - 1:,} other dialogues"
            )
    corpus = _from_log(data, {name: log[name] for name in names}, database)
    if not newer:
        return corpus
    acts = _by_plain_id(folder / _ACTS, read_json(folder / _ACTS))
    return _from_frames(folder, {name: newer[name] for name in names}, acts, corpus)


def distribution_files(folder: Path) -> list[Path]:
    """The original files in `folder`, without the databases."""
    names = (*_DATA, *_TEST_LISTS, _ACTS)
    return [
        *(path for name in names if (path := folder / name).exists()),
        *_newer(folder),
    ]


def _newer(folder: Path) -> list[Path]:
    """The dialogues of 2.2, of the test split where the splits have folders of their own."""
    return sorted((folder / "test").glob(_DIALOGUES)) or sorted(folder.rglob(_DIALOGUES))


def _read(path: Path) -> Any:
    if path.suffix != ".zip":
        return read_json(path)
    try:
        with zipfile.ZipFile(path) as archive:
            return orjson.loads(archive.read(path.stem))
    except (OSError, zipfile.BadZipFile, KeyError, orjson.JSONDecodeError) as error:
        raise CorpusError(f"{path}: must be a zip file that holds {path.stem} ({error})") from error


def _by_plain_id(path: Path, content: Any) -> dict[str, Any]:
    if not isinstance(content, dict) or not content:
        raise CorpusError(f"{path}: must map dialogue ids to their content")
    return {plain_id(name): dialogue for name, dialogue in content.items()}


def _listed(folder: Path) -> list[str]:
    """The dialogues that the test list names; none where there is no list."""
    path = next((folder / name for name in _TEST_LISTS if (folder / name).exists()), None)
    lines = [] if path is None else path.read_text(encoding="utf-8").split()
    return list(dict.fromkeys(map(plain_id, lines)))


def _frames_of(files: Iterable[Path]) -> dict[str, Any]:
    found = {}
    for path in files:
        try:
            found.update({plain_id(d["dialogue_id"]): d["turns"] for d in read_json(path)})
        except (AttributeError, KeyError, TypeError) as error:
            raise CorpusError(
                f"{path}: must be a list of dialogues, each with dialogue_id and turns ({error!r})"
            ) from error
    return found


@contextmanager
def _of_form(where: str, form: str) -> Iterator[None]:
    """Whatever cannot be read of a dialogue is one sentence that names it."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise CorpusError(f"{where} is not of the form of {form} ({error!r})") from error


def _from_log(path: Path, data: Mapping[str, Any], database: Database) -> Corpus:
    """2.0 and 2.1: turns alternate, customer first; belief states stand with the system's turns."""
    lexicon: Lexicon | None = None
    goals, references, states, booked, texts = {}, {}, {}, {}, {}
    for name, dialogue in data.items():
        with _of_form(f"{path}: dialogue {name!r}", "MultiWOZ 2.0 and 2.1"):
            system = dialogue["log"][1::2]
            said = []
            for turn in system:
                if "span_info" in turn:
                    said.append(_delexicalised(turn["text"], turn["span_info"]))
                else:
                    lexicon = lexicon or Lexicon(database)
                    said.append(lexicon.hear(turn["text"]).delexicalised)
            goals[name] = _goal(dialogue["goal"])
            references[name] = [normalise.response(text) for text in said]
            states[name] = [_state(turn["metadata"]) for turn in system]
            booked[name] = [_booked(turn["metadata"]) for turn in system]
            texts[name] = [
                (user["text"], turn["text"])
                for user, turn in zip(dialogue["log"][::2], system, strict=False)
            ]
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


def _from_frames(
    folder: Path, dialogues: Mapping[str, Any], acts: Mapping[str, Any], older: Corpus
) -> Corpus:
    """2.2: texts, spans and states anew, goals and bookings of `older`."""
    references, states, texts = {}, {}, {}
    for name, turns in dialogues.items():
        with _of_form(f"{folder}: dialogue {name!r} of 2.2, or its {_ACTS},", "MultiWOZ 2.2"):
            pairs = list(zip(turns[::2], turns[1::2], strict=False))
            references[name] = [
                normalise.response(_by_characters(turn["utterance"], _spans(turn, acts[name])))
                for _, turn in pairs
            ]
            states[name] = [_frames(user["frames"]) for user, _ in pairs]
            texts[name] = [(user["utterance"], turn["utterance"]) for user, turn in pairs]
        if len(pairs) != len(older.references[name]):
            raise CorpusError(
                f"{folder}: dialogue {name!r} has {len(pairs)} turns in 2.2 and "
                f"{len(older.references[name])} in the older file, which has the goals and bookings"
            )
    return replace(older, references=references, states=states, texts=texts)


def _spans(turn: Mapping[str, Any], acts: Mapping[str, Any]) -> list[Sequence[Any]]:
    """The spans of a turn by its acts; where it has none there, those of its frames."""
    if turn["turn_id"] in acts:
        return list(acts[turn["turn_id"]]["span_info"])
    return [
        ("", slot["slot"].split("-", 1)[-1], slot["value"], slot["start"], slot["exclusive_end"])
        for frame in turn["frames"]
        for slot in frame.get("slots", ())
        if "start" in slot
    ]


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
            for slot, given in frame.get("state", {}).get("slot_values", {}).items()
            if given and "dontcare" not in given
        }
        if slots:
            states[frame["service"]] = normalise.state(slots)
    return states
