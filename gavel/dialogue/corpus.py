"""The benchmark's own side: what each customer wanted, the gold responses and states, the databases."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from gavel.dialogue.database import Database
from gavel.errors import CorpusError

State = Mapping[str, Mapping[str, str | None]]
"""What the customer is known to want: domain -> slot -> value."""


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
