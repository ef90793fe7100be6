"""What the sensors look at: manifests on disk and the records of runs. No table is ever read."""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import dagster as dg

from assets.judging import ROUND_TAG
from assets.partitions import shard_keys
from assets.processes import end_abandoned_runs
from assets.signatures import (
    ingest_manifest,
    judge_manifest,
    judge_signature,
    look_at_manifests,
    publish_manifest,
    publish_signature,
)
from assets.tables import FAILURE_TAG
from gavel.errors import GavelError
from gavel.judge.backends import judge_of
from gavel.judge.evaluate import Judge
from gavel.judge.releases import released_rubric
from gavel.store.files import Store
from gavel.store.manifests import UNFINISHED, Manifest, read_manifest
from gavel.suite import Suite
from sensors.decisions import Failed, Request, latest_failures, look_back, stale
from sensors.loaded import Loaded
from sensors.units import Kind, Unit, day_of_run, unit_of

SIGNATURE_TAG, ATTEMPT_TAG, CAUSE_TAG = "gavel/wanted", "gavel/attempt", "gavel/cause"
_KEY_TAG = "dagster/run_key"

_AT_WORK = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
_FAILED = [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
_PAGE = 2_000
"""Records of runs read at a time."""


@dataclass
class State:
    """The manifests of the days that are kept fresh, and what they should say. Read lazily, once a tick.

    `loaded` is what Dagster's definitions were made of, where that may differ from `suite`.
    """

    suite: Suite
    store: Store
    now: dt.datetime
    loaded: Loaded | None = None
    _read: dict[Path, Manifest | None] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.days:
            look_at_manifests(self.suite, self.store, self.days[-1])

    def manifest(self, path: Path) -> Manifest | None:
        """The manifest at `path`, as it was when this tick first looked."""
        if path not in self._read:
            self._read[path] = read_manifest(path)
        return self._read[path]

    def made(self, path: Path) -> Manifest | None:
        """The same of a unit. One that cannot be read is no absent one, whose run key was used before."""
        found = self.manifest(path)
        if found is None and path.exists():
            stat = path.stat()
            known = f"{stat.st_size} {stat.st_mtime_ns}"
            return Manifest({UNFINISHED: "its manifest cannot be read"}, "nobody", known)
        return found

    @cached_property
    def tasks(self) -> list[str]:
        """The tasks of the suite."""
        return self.suite.task_names()

    @cached_property
    def days(self) -> list[str]:
        """The days of the look-back window, newest first."""
        suite = self.suite
        today = self.now.astimezone(suite.zone).date()
        return look_back(today, suite.first_day, suite.last_day, suite.automation.look_back_days)

    @cached_property
    def judges(self) -> Mapping[str, Judge]:
        """The judge of each task whose rubric was released."""
        found = {}
        for task in self.tasks:
            try:
                found[task] = judge_of(self.suite, task, released_rubric(self.store, task))
            except GavelError:
                continue
        return found

    def ingested(self, day: str) -> Manifest | None:
        """What the ingest of `day` noted."""
        return self.made(ingest_manifest(self.store, day))

    def stale_units(self) -> Iterator[Request]:
        """Every shard and publication of the window that is stale, newest day first.

        A day is published only when all its shards are fresh.
        """
        for day in self.days:
            yield from self.stale_on(day)

    def stale_on(self, day: str) -> Iterator[Request]:
        """The stale shards of `day`, else its publication if that is stale."""
        ingested = self.ingested(day)
        if ingested is None or UNFINISHED in ingested.signature:
            return
        waiting = False
        for task in self.tasks:
            judge = self.judges.get(task)
            if judge is None:
                waiting = True
                continue
            wanted = judge_signature(self.suite, judge, ingested)
            for shard in shard_keys(self.suite):
                made = self.made(judge_manifest(self.suite, self.store, task, day, shard))
                request = stale(Unit("judge", day, task, shard), made, wanted)
                if request is not None:
                    waiting = True
                    yield request
        if not waiting:
            wanted = publish_signature(
                self.suite, self.store, day, self.tasks, ingested, self.manifest
            )
            made = self.made(publish_manifest(self.store, day))
            if (request := stale(Unit("publish", day), made, wanted)) is not None:
                yield request


def at_work(instance: dg.DagsterInstance) -> tuple[set[Unit], set[str]]:
    """The units, and the days as a whole, that a run is queued for or at work on.

    Runs of a process that was killed are ended first: they would be at work for ever.
    """
    end_abandoned_runs(instance, noted=lambda run: any(_busy_with(run)))
    units, days = set(), set()
    for record in instance.get_run_records(dg.RunsFilter(statuses=_AT_WORK)):
        unit, day = _busy_with(record.dagster_run)
        if unit is not None:
            # Judging and regenerating write the same tables.
            shard: list[Kind] = ["judge", "regenerate"] if unit.shard else [unit.kind]
            units |= {replace(unit, kind=kind) for kind in shard}
        elif day is not None:
            days.add(day)
    return units, days


def _busy_with(run: dg.DagsterRun) -> tuple[Unit | None, str | None]:
    """The unit, or else the day as a whole, that `run` is for."""
    partition = run.tags.get("dagster/partition")
    unit = unit_of(run.job_name, partition)
    return unit, None if unit is not None else day_of_run(run.job_name, partition)


def failed_units(
    instance: dg.DagsterInstance, since: dt.datetime, mended: bool = False
) -> list[Failed]:
    """The units that failed, or were cancelled, since `since` and have not succeeded after that.

    With `mended`, those too that have succeeded since, for a fraction of the time: only failed runs are read.
    """
    statuses = _FAILED if mended else [*_FAILED, dg.DagsterRunStatus.SUCCESS]
    wanted = dg.RunsFilter(statuses=statuses, updated_after=since)
    return latest_failures(_ended(_records(instance, wanted)))


def _records(instance: dg.DagsterInstance, wanted: dg.RunsFilter) -> Iterator[dg.RunRecord]:
    """The records of all `wanted` runs, newest first."""
    cursor = None
    while page := instance.get_run_records(wanted, limit=_PAGE, cursor=cursor):
        yield from page
        cursor = page[-1].dagster_run.run_id
        if len(page) < _PAGE:
            return


def _ended(records: Iterable[dg.RunRecord]) -> Iterator[tuple[Unit, Failed | None]]:
    for record in records:
        run = record.dagster_run
        unit = unit_of(run.job_name, run.tags.get("dagster/partition"))
        if unit is None:
            continue
        if run.status is dg.DagsterRunStatus.SUCCESS:
            yield unit, None
            continue
        ended = record.end_time or record.update_timestamp.timestamp()
        yield (
            unit,
            Failed(
                unit,
                run.run_id,
                int(run.tags.get(ATTEMPT_TAG, "1")),
                run.tags.get(SIGNATURE_TAG, ""),
                ended,
                run.tags.get(FAILURE_TAG),
            ),
        )


def asked_before(instance: dg.DagsterInstance, requests: Iterable[Request]) -> set[str]:
    """The run keys of `requests` that are used: asking for them again asks for nothing."""
    keys = [request.run_key for request in requests]
    if not keys:
        return set()
    return {r.tags[_KEY_TAG] for r in instance.get_runs(dg.RunsFilter(tags={_KEY_TAG: keys}))}


def run_request(request: Request) -> dg.RunRequest:
    """`request` as Dagster takes it."""
    return dg.RunRequest(
        run_key=request.run_key,
        job_name=request.unit.job,
        partition_key=request.unit.partition,
        tags={
            SIGNATURE_TAG: request.signature,
            ATTEMPT_TAG: str(request.attempt),
            CAUSE_TAG: ", ".join(request.causes)[:250],
            **({ROUND_TAG: str(request.round)} if request.round else {}),
        },
    )


def listed(things: Sequence[object], most: int = 10) -> str:
    """Some of `things`, and how many more there are."""
    shown = ", ".join(map(str, things[:most]))
    return f"{shown} and {len(things) - most} more" if len(things) > most else shown
