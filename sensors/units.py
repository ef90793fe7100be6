"""The units of work that automation asks for, and how a unit, a run and a partition name one another."""

import re
from dataclasses import dataclass
from typing import Literal

import dagster as dg

from assets.jobs import INGEST, PUBLISH, RELEASE, WHOLE_DAY, judge_job, regenerate_job
from assets.partitions import DAY, SHARD

Kind = Literal["release", "ingest", "judge", "regenerate", "publish"]

_SHARD = re.compile(r"^(?P<kind>judge|regenerate)_(?P<task>.+)_shard$")


@dataclass(frozen=True, order=True)
class Unit:
    """One job of one partition: what runs, fails, and is retried as a whole."""

    kind: Kind
    day: str = ""
    task: str = ""
    shard: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in (self.kind, self.task, self.day, self.shard) if part)

    @property
    def job(self) -> str:
        """The name of its job."""
        if self.kind == "judge":
            return judge_job(self.task)
        if self.kind == "regenerate":
            return regenerate_job(self.task)
        return {"release": RELEASE, "ingest": INGEST, "publish": PUBLISH}[self.kind]

    @property
    def partition(self) -> str | None:
        """The key of its partition; None where the job has none."""
        if self.shard:
            return dg.MultiPartitionKey({DAY: self.day, SHARD: self.shard})
        return self.day or None


def unit_of(job: str, partition: str | None) -> Unit | None:
    """The unit that a run of `job` makes, or None where it makes none by itself."""
    if job == RELEASE:
        return Unit("release")
    if partition is None:
        return None
    if job == INGEST:
        return Unit("ingest", partition)
    if job == PUBLISH:
        return Unit("publish", partition)
    if (judged := _SHARD.match(job)) is not None and "|" in partition:
        day, _, shard = partition.partition("|")
        kind: Kind = "judge" if judged["kind"] == "judge" else "regenerate"
        return Unit(kind, day, judged["task"], shard)
    return None


def day_of_run(job: str, partition: str | None) -> str | None:
    """The day that a whole-day run or a backfill's run is busy with."""
    if partition is not None and (job == WHOLE_DAY or job.startswith("__ASSET_JOB")):
        return partition.partition("|")[0]
    return None
