"""The benchmark's own side: what each customer wanted, the gold responses and states, the databases.

A corpus folder is either prepared (goals.json, references.json, states.json, booked_domains.json,
database/) or an original distribution of MultiWOZ, which `gavel.dialogue.distribution` reads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from gavel.dialogue.database import Database, load_database
from gavel.errors import CorpusError

State = Mapping[str, Mapping[str, str | None]]
"""What the customer is known to want: domain -> slot -> value."""

PREPARED = ("goals.json", "references.json", "states.json", "booked_domains.json")


@dataclass(frozen=True)
class DomainGoal:
    """What a customer wants of one domain.

    `informable` are constraints; `requestable` are tokens such as PHONE that must be answered.
    """

    informable: Mapping[str, str]
    requestable: tuple[str, ...]


Goal = Mapping[str, DomainGoal]


@dataclass(frozen=True)
class Corpus:
    """All dialogues, by id; sequences have one item a system turn.

    `booked` are the domains booked by then; `texts`, where the corpus has them, are the turns' customer's
    and system's words.
    """

    goals: Mapping[str, Goal]
    references: Mapping[str, Sequence[str]]
    states: Mapping[str, Sequence[State]]
    booked: Mapping[str, Sequence[frozenset[str]]]
    database: Database
    fingerprint: str
    texts: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)

    def turns(self, dialogue: str) -> int:
        """How many system turns `dialogue` has."""
        return len(self.references[dialogue])


def plain_id(dialogue: str) -> str:
    """A dialogue's id as the benchmark writes it: `SNG0073.json` is `sng0073`."""
    return dialogue.lower().removesuffix(".json")


def load_corpus(folder: Path) -> Corpus:
    """The corpus in `folder`, prepared or original.

    Raises:
        CorpusError: it is neither, or one of its files is malformed.
    """
    from gavel.dialogue.distribution import load_distribution

    if (folder / PREPARED[0]).exists():
        return _prepared(folder)
    return load_distribution(folder)


def fingerprint(files: Sequence[Path]) -> str:
    """A hash of the content of `files`, which any change of the corpus changes."""
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def database_folder(folder: Path) -> Path:
    """Where the databases of the corpus in `folder` are: `database/`, `db/`, or the folder itself."""
    return next((p for name in ("database", "db") if (p := folder / name).is_dir()), folder)


def read_json(path: Path) -> Any:
    """The content of a file of the corpus.

    Raises:
        CorpusError: it is missing or no JSON.
    """
    try:
        return orjson.loads(path.read_bytes())
    except OSError as error:
        raise CorpusError(f"{path}: cannot be read ({error.strerror})") from error
    except orjson.JSONDecodeError as error:
        raise CorpusError(f"{path}: is no JSON: {error}") from error


def _prepared(folder: Path) -> Corpus:
    goals, references, states, booked = (_dialogues(folder / name) for name in PREPARED)
    for dialogue in goals:
        counts = [
            len(found) if isinstance(found := part.get(dialogue), list) else 0
            for part in (references, states, booked)
        ]
        if len(set(counts)) > 1 or not counts[0]:
            told = ", ".join(f"{n} in {p}" for n, p in zip(counts, PREPARED[1:], strict=True))
            raise CorpusError(f"{folder}: turns of dialogue {dialogue!r} differ: {told}")
    try:
        parsed = {name: {d: _goal(g) for d, g in goal.items()} for name, goal in goals.items()}
    except (AttributeError, KeyError, TypeError) as error:
        raise CorpusError(
            f"{folder / PREPARED[0]}: a goal must map domains to informable and requestable ({error!r})"
        ) from error
    databases = database_folder(folder)
    return Corpus(
        goals=parsed,
        references={name: references[name] for name in goals},
        states={name: states[name] for name in goals},
        booked={name: [frozenset(turn) for turn in booked[name]] for name in goals},
        database=load_database(databases),
        fingerprint=fingerprint([*(folder / n for n in PREPARED), *databases.glob("*.json")]),
    )


def _dialogues(path: Path) -> dict[str, Any]:
    found = read_json(path)
    if not isinstance(found, dict) or not found:
        raise CorpusError(f"{path}: must map dialogue ids to their content")
    return {plain_id(name): content for name, content in found.items()}


def _goal(goal: Mapping[str, Any]) -> DomainGoal:
    return DomainGoal(dict(goal["informable"]), tuple(goal["requestable"]))
