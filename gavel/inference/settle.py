"""Ask until the answers can be used: each is read, and asked for again where it is invalid."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import pyarrow as pa

from gavel.errors import StoreError
from gavel.inference.ask import Asked, ask
from gavel.inference.budget import Spending
from gavel.inference.ledger import Ledger, latest, segments
from gavel.inference.request import Answer, Backend, Request
from gavel.store.tables import session

Row = Mapping[str, Any]
"""A row of the ledger."""

S = TypeVar("S")
R = TypeVar("R")


@dataclass
class Settled(Generic[R]):
    """What came of one subject: a reading and its answer for each attempt, first attempt first."""

    readings: list[R]
    answers: list[Row] = field(default_factory=list)

    @property
    def reading(self) -> R:
        """The last reading, which stands."""
        return self.readings[-1]


@dataclass(frozen=True)
class Desk:
    """Where answers come from and are kept: a backend, the ledger of a scope, and what may be spent."""

    backend: Backend
    ledger: Ledger
    spending: Spending | None = None
    progress: Callable[[Asked, list[Answer]], None] = lambda asked, answers: None


def settle(
    desk: Desk,
    subjects: Sequence[S],
    request: Callable[[S, int, R | None, Row | None], Request],
    read: Callable[[Row], R],
    valid: Callable[[R], bool],
    attempts: int,
) -> list[Settled[R]]:
    """Ask about each of `subjects`, and again while the reading is not `valid`, `attempts` times at most.

    `request(subject, attempt, reading, answer)` makes the request; from the second attempt on it is given the
    invalid reading and its answer. The result is in the order of `subjects`. An answer that is in the
    ledger already is not asked for.

    Raises:
        EvaluatorOutage, EvaluatorRefused, BudgetSpent: as `ask`; what was answered stays in the ledger.
    """
    settled: dict[int, Settled[R]] = {}
    open_ = list(range(len(subjects)))
    for attempt in range(1, attempts + 1):
        requests = []
        for place in open_:
            before = settled.get(place)
            requests.append(
                request(
                    subjects[place],
                    attempt,
                    before.reading if before else None,
                    before.answers[-1] if before else None,
                )
            )
        ask(requests, desk.backend, desk.ledger, desk.progress, desk.spending)
        found = answers_to(desk.ledger.folder, requests)
        for place, asked in zip(open_, requests, strict=True):
            answer = found[asked.key]
            reading = read(answer)
            own = settled.setdefault(place, Settled([]))
            own.readings.append(reading)
            own.answers.append(answer)
        open_ = [place for place in open_ if not valid(settled[place].reading)]
        if not open_:
            break
    return [settled[place] for place in range(len(subjects))]


def answers_to(folder: Path, requests: Iterable[Request]) -> dict[tuple[str, int], Row]:
    """The ledger's answer to each of `requests`, by its key.

    Raises:
        StoreError: there is none to one of them.
    """
    keys = {request.key for request in requests}
    wanted = pa.table(
        {
            "request_hash": pa.array([key[0] for key in keys], pa.string()),
            "attempt": pa.array([key[1] for key in keys], pa.int32()),
        }
    )
    with session() as connection:
        connection.register("wanted", wanted)
        query = f"SELECT * FROM ({latest(segments(folder))}) SEMI JOIN wanted USING (request_hash, attempt)"
        rows = connection.sql(query).to_arrow_table().to_pylist()
    found = {(row["request_hash"], row["attempt"]): row for row in rows}
    if missing := keys - set(found):
        raise StoreError(
            f"the ledger {folder} holds no answer to request {min(missing)[0]}; a file of the ledger was removed "
            "while the run was using it: run again"
        )
    return found
