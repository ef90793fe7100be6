"""What has to run, decided from manifests and from what is known of runs. Pure: tested as tables.

A request is made once for a state of the world: its run key holds the unit, the signature wanted, the
manifest it would replace, and the attempt. While nothing of these changes, asking again is asking for a key that
was used, which Dagster skips.
"""

import datetime as dt
import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from assets.partitions import days_before
from assets.signatures import EARLIER
from gavel.store.manifests import UNFINISHED, Manifest, signature_hash
from sensors.units import Unit

PERMANENT = ("EvaluatorRefused", "RubricError", "SuiteError", "check")
"""Kinds of failure that would come again however often it is tried."""

BUDGET = "BudgetSpent"
"""The kind of failure that only waits for tomorrow."""


@dataclass(frozen=True)
class Request:
    """A run to ask for: why, for which signature, in place of what, at which attempt.

    `round` is which further round of regeneration it is, 0 where it is none; `retries` the run that failed,
    since more than one may fail at the same attempt: what the budget of the day stops counts as no attempt.
    """

    unit: Unit
    causes: tuple[str, ...]
    signature: str
    replaces: str = "nothing"
    attempt: int = 1
    round: int = 0
    retries: str = "no run"

    @property
    def run_key(self) -> str:
        """Used once and never again."""
        key = f"{self.unit} | {self.signature} | after {self.replaces} | attempt {self.attempt}"
        return key if self.retries == "no run" else f"{key} after {self.retries}"


def causes_of(made: Mapping[str, str] | None, wanted: Mapping[str, str]) -> tuple[str, ...]:
    """Why what was made from `made` is stale now that `wanted` holds; empty where it is fresh."""
    if made is None:
        return ("never made",)
    causes = []
    if UNFINISHED in made and len(made) == 1:
        return (made[UNFINISHED],)
    for part in sorted(made.keys() | wanted.keys()):
        before, now = made.get(part), wanted.get(part)
        if before == now:
            continue
        if part.startswith("rows"):
            causes.append("new rows")
        elif part == "rubric" and before and now:
            task, old, _ = before.split()
            causes.append(f"rubric {task} {old} -> {now.split()[1]}")
        elif part == "shards" and before and now:
            causes.append(f"shards {before} -> {now}")
        else:
            causes.append(part)
    return tuple(dict.fromkeys(causes))


def stale(unit: Unit, made: Manifest | None, wanted: Mapping[str, str]) -> Request | None:
    """The request that would make `unit` fresh, or None where it is."""
    causes = causes_of(None if made is None else made.signature, wanted)
    if not causes:
        return None
    replaces = "nothing" if made is None else f"{made.made_by} {made.made_at}"
    return Request(unit, causes, signature_hash(wanted), replaces)


def settled(requests: Sequence[Request], moving: Collection[str], window: int) -> list[Request]:
    """`requests` without those that must wait until the days before theirs have settled.

    A publication that only earlier days ask for, since its drift is measured against them, waits while one of
    the `window` days before is `moving`: so it is made once, when all of them are done.
    """

    def waits(request: Request) -> bool:
        if request.causes != (EARLIER,):
            return False
        return any(day in moving for day in days_before(request.unit.day, window))

    return [request for request in requests if not waits(request)]


def admitted(
    requests: Iterable[Request], busy: Collection[Unit], busy_days: Collection[str]
) -> list[Request]:
    """The requests whose unit, and whose day, no run is at work on."""
    return [r for r in requests if r.unit not in busy and r.unit.day not in busy_days]


@dataclass(frozen=True)
class Failed:
    """A failed run of a unit. `ended` is in seconds since 1970, UTC.

    `signature` is what was wanted when a sensor asked for the run; empty where a person started it, whose
    `attempt` is how many tries it counts. `kind` is the class of the error, as the run is tagged; None where
    the process died or a check failed.
    """

    unit: Unit
    run_id: str
    attempt: int
    signature: str
    ended: float
    kind: str | None = None

    @property
    def counts(self) -> bool:
        """Whether it spent an attempt: a run that the budget of the day stopped tells nothing of its unit."""
        return self.kind != BUDGET

    @property
    def permanent(self) -> bool:
        """Whether trying again cannot help."""
        return self.kind is not None and self.kind.split(":")[0] in PERMANENT


def latest_failures(ended: Iterable[tuple[Unit, Failed | None]]) -> list[Failed]:
    """The failure that stands of each unit, of the runs that ended, newest first; None stands for a success.

    What a sensor asked for last and failed stands, until a run succeeds. A run that a person started counts as
    one more try of it and nothing else: it says not what is wanted, nor whether trying again would help. A unit
    that failed by hand alone is left to the sensor that finds it stale.
    """
    found: dict[Unit, Failed] = {}
    succeeded: set[Unit] = set()
    for unit, failure in ended:
        if unit in succeeded:
            continue
        if failure is None:
            succeeded.add(unit)
            continue
        if not failure.signature and not failure.counts:
            continue
        newer = found.get(unit)
        if newer is None:
            found[unit] = failure
        elif not newer.signature:
            found[unit] = replace(
                failure, attempt=failure.attempt + newer.attempt, ended=newer.ended
            )
        elif newer.signature == failure.signature and failure.attempt > newer.attempt:
            # Dagster's re-execution of an older run has the older run's tags.
            found[unit] = replace(newer, attempt=failure.attempt)
    return list(found.values())


@dataclass(frozen=True)
class Retries:
    """What becomes of the failed units: asked for now, waiting for their time, or given up."""

    now: Sequence[Request]
    waiting: Mapping[Unit, float]
    given_up: Sequence[Failed]


def retries(
    failed: Iterable[Failed],
    wanted: Mapping[Unit, Request],
    now: float,
    attempts: int,
    backoff: float,
    zone: dt.tzinfo = dt.UTC,
    *,
    spent: bool = True,
) -> Retries:
    """Decide about each failed unit that is still wanted as it was; `wanted` are the stale units.

    A unit stopped by the budget of the day waits for the next day of `zone`, as often as it takes, or until the
    budget is not `spent` any more since somebody has raised it. A unit that is fresh by now, or wanted with
    another signature, has a new budget and is not decided here.
    """
    again: list[Request] = []
    waiting: dict[Unit, float] = {}
    given_up: list[Failed] = []
    for failure in sorted(failed, key=lambda f: (f.unit.day, f.unit), reverse=True):
        request = wanted.get(failure.unit)
        if request is None or request.signature != failure.signature:
            continue
        if not failure.counts:
            due = next_day(failure.ended, zone) if spent else failure.ended
        elif failure.permanent or failure.attempt >= attempts:
            given_up.append(failure)
            continue
        else:
            due = failure.ended + delay(failure, backoff)
        if now < due:
            waiting[failure.unit] = due
            continue
        again.append(
            replace(
                request,
                causes=(*request.causes, f"attempt {failure.attempt} failed"),
                attempt=failure.attempt + failure.counts,
                retries=failure.run_id,
            )
        )
    return Retries(again, waiting, given_up)


def next_day(time: float, zone: dt.tzinfo) -> float:
    """The first second of the day after `time` (seconds since 1970) in `zone`."""
    date = dt.datetime.fromtimestamp(time, zone).date() + dt.timedelta(days=1)
    return dt.datetime.combine(date, dt.time(), zone).timestamp()


def delay(failure: Failed, backoff: float) -> float:
    """Seconds to wait: doubling with each attempt, up to half as much again by chance.

    The chance is drawn from the run's id, so that every daemon and every tick draws the same.
    """
    chance = int(hashlib.sha256(failure.run_id.encode()).hexdigest()[:8], 16) / 0xFFFFFFFF
    return backoff * 2.0 ** (failure.attempt - 1) * (1 + chance / 2)


@dataclass(frozen=True)
class Probes:
    """The probes of an evaluator that failed one after another: how many, and when the last, since 1970, UTC."""

    failed: int
    last: float

    def due(self, attempts: int, backoff: float) -> float:
        """When it may be probed again: the wait doubles as that of a failed partition, and then stays so long."""
        return self.last + backoff * 2.0 ** (min(self.failed, attempts) - 1)


def look_back(today: dt.date, first: dt.date, last: dt.date | None, days: int) -> list[str]:
    """The days that are kept fresh, newest first: the last `days` complete ones, `today` left out."""
    newest = min(today - dt.timedelta(days=1), last or today)
    count = min(days, (newest - first).days + 1)
    return [(newest - dt.timedelta(days=back)).isoformat() for back in range(max(count, 0))]
