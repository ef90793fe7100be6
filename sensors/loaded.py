"""What the definitions that Dagster has loaded can run, where the settings have changed since they were loaded.

Sensors read suite.yaml at every tick; jobs, their assets and their partitions are as they were when the code
location was loaded. Asking for what they do not have would fail the whole tick, or use up a run key for less.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assets.partitions import daily, sharded
from gavel.suite import Suite
from sensors.units import Unit


@dataclass(frozen=True)
class Loaded:
    """The suite that the definitions were made of, and its tasks, which their folders told then."""

    suite: Suite
    tasks: Sequence[str]

    def can_run(self, unit: Unit, now: Suite) -> bool:
        """Whether there is the job of `unit` with its partition, and makes all that it makes by `now`."""
        if unit.kind in ("judge", "regenerate"):
            if unit.task not in self.tasks or _others(self.suite, unit.task) != _others(
                now, unit.task
            ):
                return False
            return sharded(self.suite).has_partition_key(str(unit.partition))
        if unit.kind in ("release", "publish") and self.tasks != now.task_names():
            return False
        return unit.partition is None or daily(self.suite).has_partition_key(unit.partition)

    def changes(self, now: Suite) -> list[str]:
        """The settings that definitions are made of and that differ by `now`, each with both values."""
        before, after = _shape(self.suite, self.tasks), _shape(now, now.task_names())
        return [f"{k} {before[k]} -> {after[k]}" for k in after if before[k] != after[k]]


def _shape(suite: Suite, tasks: Sequence[str]) -> Mapping[str, str]:
    return {
        "first_day": suite.first_day.isoformat(),
        "last_day": "null" if suite.last_day is None else suite.last_day.isoformat(),
        "timezone": suite.timezone,
        "shards": str(suite.shards),
        "tasks": ", ".join(tasks),
        "tasks with other evaluators": ", ".join(t for t in tasks if _others(suite, t)) or "none",
    }


def _others(suite: Suite, task: str) -> bool:
    return bool(suite.settings_of(task).others)
