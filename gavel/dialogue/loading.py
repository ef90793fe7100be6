"""Reading a corpus folder: prepared files, or an original distribution of MultiWOZ.

Prepared are goals.json, references.json, states.json, booked_domains.json and the folder database/,
references and states already in the spelling of the standard evaluation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gavel.dialogue.corpus import (
    Corpus,
    DomainGoal,
    database_folder,
    fingerprint,
    plain_id,
    read_json,
)
from gavel.dialogue.database import load_database
from gavel.dialogue.distribution import distribution_files, load_distribution
from gavel.errors import CorpusError

PREPARED = ("goals.json", "references.json", "states.json", "booked_domains.json")


def load_corpus(folder: Path) -> Corpus:
    """The corpus in `folder`, prepared or original.

    Raises:
        CorpusError: it is neither, or one of its files is malformed.
    """
    if (folder / PREPARED[0]).exists():
        return replace(_prepared(folder), fingerprint=fingerprint(corpus_files(folder)))
    return replace(load_distribution(folder), fingerprint=fingerprint(corpus_files(folder)))


def corpus_files(folder: Path) -> list[Path]:
    """The files in `folder` that determine the corpus, as far as they are there."""
    if (folder / PREPARED[0]).exists():
        own = [path for name in PREPARED if (path := folder / name).exists()]
    else:
        own = distribution_files(folder)
    return sorted({*own, *database_folder(folder).glob("*.json")})


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
    for name in goals:
        _check(folder, name, references[name], states[name], booked[name])
    return Corpus(
        goals=parsed,
        references={name: references[name] for name in goals},
        states={name: states[name] for name in goals},
        booked={name: [frozenset(turn) for turn in booked[name]] for name in goals},
        database=load_database(database_folder(folder)),
        fingerprint="",
    )


def _check(folder: Path, name: str, references: Any, states: Any, booked: Any) -> None:
    """Each turn must have a text, a state of texts by domain and slot, and a list of domains."""
    for number, (said, state, domains) in enumerate(
        zip(references, states, booked, strict=True), 1
    ):
        wrong = None
        if not isinstance(said, str):
            wrong = f"{PREPARED[1]}: must be text, found {said!r}"
        elif not isinstance(state, dict) or not all(
            isinstance(slots, dict)
            and all(value is None or isinstance(value, str) for value in slots.values())
            for slots in state.values()
        ):
            wrong = (
                f"{PREPARED[2]}: must map domains to slots, and slots to text, found {state!r:.80}"
            )
        elif not isinstance(domains, list) or not all(isinstance(d, str) for d in domains):
            wrong = f"{PREPARED[3]}: must be a list of domains, found {domains!r:.80}"
        if wrong is not None:
            raise CorpusError(f"{folder}: dialogue {name!r}, turn {number} of {wrong}")


def _dialogues(path: Path) -> dict[str, Any]:
    found = read_json(path)
    if not isinstance(found, dict) or not found:
        raise CorpusError(f"{path}: must map dialogue ids to their content")
    return {plain_id(name): content for name, content in found.items()}


def _goal(goal: Mapping[str, Any]) -> DomainGoal:
    return DomainGoal(dict(goal["informable"]), tuple(goal["requestable"]))
