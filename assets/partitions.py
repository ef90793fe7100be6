"""What a partition is: a day of the suite's time zone, and a shard of a day."""

import datetime as dt
import warnings
from pathlib import Path

import dagster as dg

from gavel.store.files import Store
from gavel.suite import Suite

DAY, SHARD = "day", "shard"


def daily(suite: Suite) -> dg.DailyPartitionsDefinition:
    """One partition a day, from the suite's first day on."""
    end = None if suite.last_day is None else suite.last_day + dt.timedelta(days=1)
    return dg.DailyPartitionsDefinition(
        start_date=suite.first_day.isoformat(),
        end_date=None if end is None else end.isoformat(),
        timezone=suite.timezone,
    )


def shard_keys(suite: Suite) -> list[str]:
    """The keys of a day's shards."""
    return [str(shard) for shard in range(suite.shards)]


def sharded(suite: Suite) -> dg.MultiPartitionsDefinition:
    """One partition a day and shard."""
    shards = dg.StaticPartitionsDefinition(shard_keys(suite))
    return dg.MultiPartitionsDefinition({DAY: daily(suite), SHARD: shards})


def window_until(days: int) -> dg.TimeWindowPartitionMapping:
    """A day depends on itself and on the `days` before it, as far as they exist."""
    with warnings.catch_warnings():
        # The parameter is in beta; without it, the first days would depend on partitions that never were.
        warnings.simplefilter("ignore", dg.BetaWarning)
        return dg.TimeWindowPartitionMapping(
            start_offset=-days, end_offset=0, allow_nonexistent_upstream_partitions=True
        )


def days_before(day: str, count: int) -> list[str]:
    """The `count` days before `day`, newest first: what a window of as many days is made of."""
    date = dt.date.fromisoformat(day)
    return [(date - dt.timedelta(days=back)).isoformat() for back in range(1, count + 1)]


def day_and_shard(context: dg.AssetExecutionContext) -> tuple[str, str]:
    """The day and the shard of the run's partition."""
    key = context.partition_key
    assert isinstance(key, dg.MultiPartitionKey)
    return key.keys_by_dimension[DAY], key.keys_by_dimension[SHARD]


def shard_files(suite: Suite, store: Store, table: str, day: str) -> list[Path]:
    """The files of `table` of every shard of the day. Raises StoreError where one is missing."""
    return [store.existing(table, day, shard) for shard in shard_keys(suite)]


def opinion_files(suite: Suite, store: Store, task: str, day: str) -> list[Path]:
    """The same of the opinions of other evaluators; none where the task asks no others."""
    if not suite.settings_of(task).others:
        return []
    return shard_files(suite, store, f"{task}/opinions", day)
