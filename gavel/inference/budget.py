"""A budget a day: what may be spent on requests, and what all runs of the day have spent."""

from __future__ import annotations

import datetime as dt
import math
import time
import uuid
from collections.abc import Iterable
from pathlib import Path
from zoneinfo import ZoneInfo

import orjson

from gavel.errors import GavelError
from gavel.inference.ledger import writing
from gavel.inference.request import Answer
from gavel.settings.judging import Prices
from gavel.settings.operation import Budget
from gavel.store.bucket import bucket_of, put

_EVERY = 20
"""Answers between two looks at what the other runs have spent."""
_PAUSE = 10.0
"""Seconds between two such looks where the store is in a bucket."""


class BudgetSpent(GavelError):
    """The day's budget is spent: the rest is left for tomorrow, and every answer received is kept."""


class Spending:
    """What one run spends, written where the others see it: one small file a run and day under `folder`.

    Requests under way are still answered and counted, and other runs are looked at every few answers only
    (of a store in a bucket: every few seconds), so with several runs at once the budget may be exceeded
    by what each has in flight.
    """

    def __init__(self, folder: Path, budget: Budget, prices: Prices, zone: ZoneInfo) -> None:
        self._folder = folder
        self._bounds = budget.model_dump(exclude_none=True)
        self._prices = prices
        self._zone = zone
        self._name = f"{uuid.uuid4().hex}.json"
        self._own: dict[str, float] = {}
        self._day = ""
        self._since = 0
        # A bucket is not asked after every few answers: it would take longer than they did. Without a budget it is
        # told at the end alone.
        bucket_pause = _PAUSE if self._bounds else math.inf
        self._pause = 0.0 if bucket_of(folder) is None else bucket_pause
        self._next = 0.0 if self._bounds else self._pause
        self._others: dict[str, float] = {}

    def add(self, answers: Iterable[Answer]) -> None:
        """Count `answers`, each with the tokens the server reports."""
        self._turn_day()
        for answer in answers:
            read, written = answer.prompt_tokens or 0, answer.completion_tokens or 0
            usd = (read * self._prices.prompt + written * self._prices.completion) / 1e6
            spent = {"requests": 1 + len(answer.retries), "tokens": read + written, "usd": usd}
            self._own = {k: self._own.get(k, 0) + v for k, v in spent.items()}
            self._since += 1
        if self._since >= _EVERY and time.monotonic() >= self._next:
            self._share()

    def spent(self, under_way: int) -> str | None:
        """What is spent, in words, once today's budget is; None while there is some left.

        `under_way` requests of this run are sent and not answered: they count as requests already, since what
        is under way is still answered.
        """
        self._turn_day()
        for name, bound in self._bounds.items():
            total = self._own.get(name, 0) + self._others.get(name, 0)
            total += under_way if name == "requests" else 0
            if total >= bound:
                return f"{total:,.6g} of {bound:,.6g} {name}"
        return None

    def close(self) -> None:
        """Leave what was spent where the other runs see it."""
        if self._own:
            self._share()

    def _turn_day(self) -> None:
        today = dt.datetime.now(self._zone).date().isoformat()
        if today != self._day:
            self._day, self._own = today, {}
            self._look()

    def _share(self) -> None:
        """Write the own file, whole, and look at the others'."""
        self._since = 0
        self._next = time.monotonic() + self._pause
        folder = self._folder / self._day
        unfinished = folder / f".{self._name}"
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            unfinished.write_bytes(orjson.dumps(self._own))
            put(unfinished, folder / self._name)
        self._look()

    def _look(self) -> None:
        self._others = {}
        if not self._bounds:
            return
        folder = self._folder / self._day
        if (bucket := bucket_of(folder)) is not None:
            bucket.bring_folder(folder, ".json")
        for file in folder.glob("[!.]*.json"):
            if file.name != self._name:
                for name, value in orjson.loads(file.read_bytes()).items():
                    self._others[name] = self._others.get(name, 0) + value
