"""Pairs: two systems' answers to the same prompt, shown to an evaluator in both orders.

A file of pairs is JSON Lines, one prompt a line: `item`, `prompt`, `answers` (system to text, two or more), and
if wished `language` and `preferences` (annotator to the name of the system preferred, or "tie"; only where
there are two answers).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pyarrow as pa

from gavel.agreement.annotators import majority
from gavel.errors import PairError
from gavel.judge.prompts import RECORD_COLUMNS
from gavel.settings.trust import PAIRWISE

TIE = "tie"
"""What stands for the winner where there is none."""

PAIRS = pa.schema(
    [
        pa.field("row_id", pa.string(), nullable=False),
        *((name, pa.string()) for name in ("task", "item", "first", "second", "people")),
        *((n, pa.bool_() if n == "out_of_coverage" else pa.string()) for n in RECORD_COLUMNS),
        ("shard", pa.int32()),
        ("shard_row", pa.int64()),
    ]
)
"""One row a question: `first` is the system shown first. Each pair has two, one in each order."""


@dataclass(frozen=True)
class Outcome:
    """What an evaluator says of a pair, asked in both orders; `one` is before `other` in the alphabet.

    `points` of `one` are the mean of both answers: 1 for it, 0.5 for a tie, 0 for the other; None where an
    answer is missing. `shown_first` are 1, 0.5 or 0 as the answer shown first was preferred in each order.
    """

    item: str
    one: str
    other: str
    points: float | None
    consistent: bool | None
    shown_first: tuple[float, ...]
    people: str | None

    @property
    def winner(self) -> str | None:
        """The system that both orders prefer, else a tie; None where an answer is missing."""
        if self.points is None:
            return None
        return {1.0: self.one, 0.0: self.other}.get(self.points, TIE)


def read_pairs(path: Path) -> pa.Table:
    """The questions of the file at `path`, as `PAIRS`.

    Raises:
        PairError: the file is missing, or a line is not what this module says; it names file and line.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise PairError(
            f"{path}: cannot be read ({error.strerror}); benchmark.pairs names a JSON Lines file of pairs"
        ) from error
    rows: list[dict[str, Any]] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        found = _checked(line, where)
        item = str(found["item"])
        if item in seen:
            raise PairError(
                f"{where}: item {item!r} stands in line {seen[item]} too; each needs its own"
            )
        seen[item] = number
        rows += _questions(found, item)
    for place, row in enumerate(rows):
        row |= {"shard": 0, "shard_row": place}
    return pa.Table.from_pylist(rows, schema=PAIRS)


def _checked(line: bytes, where: str) -> dict[str, Any]:
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise PairError(f"{where}: is no JSON ({error})") from error
    if not isinstance(found, dict):
        raise PairError(f"{where}: holds {type(found).__name__}, not a JSON object")
    for name in ("item", "prompt", "answers"):
        if name not in found:
            raise PairError(
                f"{where}: has no {name}; accepted: item, prompt, answers, language, preferences"
            )
    answers = found["answers"]
    if (
        not isinstance(answers, dict)
        or len(answers) < 2
        or not all(isinstance(text, str) for text in answers.values())
    ):
        raise PairError(
            f"{where}: answers are two or more systems' texts; found {str(answers)[:80]}"
        )
    if TIE in answers:
        raise PairError(f"{where}: a system cannot be called {TIE!r}")
    preferences = found.get("preferences", {})
    if preferences and len(answers) > 2:
        raise PairError(f"{where}: preferences are of two answers; found {len(answers)}")
    if wrong := [p for p in preferences.values() if p != TIE and p not in answers]:
        raise PairError(
            f"{where}: preferences name {wrong[0]!r}; accepted: {', '.join(sorted(answers))}, {TIE}"
        )
    return found


def _questions(found: Mapping[str, Any], item: str) -> Iterator[dict[str, Any]]:
    people = majority(list(found.get("preferences", {}).values()))
    answers: Mapping[str, str] = found["answers"]
    for pair in combinations(sorted(answers), 2):
        for first, second in (pair, pair[::-1]):
            name = "\x1f".join((item, first, second))
            yield {
                "row_id": hashlib.sha256(name.encode()).hexdigest()[:32],
                "task": PAIRWISE,
                "item": item,
                "first": first,
                "second": second,
                "people": people,
                "prompt": str(found["prompt"]),
                "language": found.get("language"),
                # What a template sees of a record has one place for an answer, and one for another answer.
                "response": answers[first],
                "reference": answers[second],
            }


def outcomes(pairs: pl.DataFrame, known: Mapping[str, str]) -> list[Outcome]:
    """What an evaluator says of each pair; `known` is its valid preference on each question it has one on."""
    asked: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for question in pairs.iter_rows(named=True):
        one, other = sorted((question["first"], question["second"]))
        asked.setdefault((question["item"], one, other), []).append(question)
    return [
        _outcome(item, one, other, questions, known)
        for (item, one, other), questions in asked.items()
    ]


_SHOWN_FIRST = {"first": 1.0, TIE: 0.5, "second": 0.0}


def _outcome(
    item: str,
    one: str,
    other: str,
    questions: Sequence[Mapping[str, Any]],
    known: Mapping[str, str],
) -> Outcome:
    shown_first = [_SHOWN_FIRST.get(known.get(q["row_id"], "")) for q in questions]
    answered = tuple(value for value in shown_first if value is not None)
    points = [
        value if question["first"] == one else 1 - value
        for question, value in zip(questions, shown_first, strict=True)
        if value is not None
    ]
    both = len(points) == len(questions)
    return Outcome(
        item,
        one,
        other,
        sum(points) / len(points) if both else None,
        len(set(points)) == 1 if both else None,
        answered,
        questions[0]["people"],
    )


def of_people(found: Sequence[Outcome]) -> list[Outcome]:
    """What people say of the same pairs, as if they were an evaluator that never contradicts itself."""
    return [
        Outcome(
            o.item,
            o.one,
            o.other,
            None if o.people is None else {o.one: 1.0, TIE: 0.5}.get(o.people, 0.0),
            None if o.people is None else True,
            (),
            o.people,
        )
        for o in found
    ]
