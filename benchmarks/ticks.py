"""How long a tick of each sensor takes when there is nothing to do.

    python benchmarks/ticks.py [DAYS]

A window of DAYS (90) days, 4 shards and 2 tasks, all fresh, on a Dagster instance in SQLite: with no history and
with 1,000 finished runs, with logs and tables of no bytes and of 1 GiB each (holes, so that reading one would be
noticed by its time or by its content). Prints a table and writes benchmarks/results/ticks.json.
"""

from __future__ import annotations

import argparse
import datetime as dt
import shutil
import statistics
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import yaml
from processes import verdict, write_results

from assets import build_assets
from assets.jobs import build_jobs
from assets.partitions import shard_keys
from assets.signatures import (
    ingest_manifest,
    ingest_signature,
    judge_manifest,
    judge_signature,
    publish_manifest,
    publish_signature,
    scores_manifest,
)
from assets.tables import FAILURE_TAG
from gavel.judge.backends import judge_of
from gavel.judge.releases import release, released_rubric
from gavel.judge.rubric import load_rubric
from gavel.store.files import Store
from gavel.store.manifests import Manifest, signature_hash, write_manifest
from gavel.suite import Suite, load_suite
from resources import build_resources
from sensors.alerting import alert_sensor
from sensors.automation import automation_sensors
from sensors.state import ATTEMPT_TAG, SIGNATURE_TAG
from sensors.units import Unit

ROOT = Path(__file__).parents[1]
SHARDS, TICKS, TARGET_SECONDS = 4, 7, 1.0
HISTORY = 1_000
HUGE = 1 << 30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("days", type=int, nargs="?", default=90)
    days = parser.parse_args().days
    figures = []
    with tempfile.TemporaryDirectory() as temporary:
        suite = fresh_project(Path(temporary), days)
        for runs, size in ((0, 0), (HISTORY, 0), (HISTORY, HUGE)):
            resize(suite, size)
            make_fresh(suite)
            with instance_with(suite, runs) as instance:
                for name, seconds in measure(suite, instance).items():
                    figures.append(
                        {
                            "sensor": name,
                            "runs": runs,
                            "bytes_a_file": size,
                            "median_seconds": statistics.median(seconds),
                            "worst_seconds": max(seconds),
                        }
                    )
    print(f"{'sensor':20} {'runs':>6} {'a file':>7} {'median':>9} {'worst':>9}")
    for row in figures:
        met = row["worst_seconds"] < TARGET_SECONDS
        size = "1 GiB" if row["bytes_a_file"] else "0"
        print(
            f"{row['sensor']:20} {row['runs']:6} {size:>7} {1000 * row['median_seconds']:6.0f} ms "
            f"{1000 * row['worst_seconds']:6.0f} ms  {verdict(met)}"
        )
    write_results(
        "ticks",
        {"days": days, "shards": SHARDS, "target_seconds": TARGET_SECONDS, "ticks": figures},
    )


def fresh_project(folder: Path, days: int) -> Suite:
    """A suite of `days` days whose rubrics are released."""
    shutil.copytree(ROOT / "prompts", folder / "prompts")
    (folder / "logs").mkdir()
    last = dt.datetime.now(dt.UTC).date() - dt.timedelta(days=1)
    settings = {
        "name": "ticks",
        "first_day": (last - dt.timedelta(days=days - 1)).isoformat(),
        "sources": [{"name": "shop", "format": "jsonl", "path": "logs/{day}.jsonl"}],
        "evaluator": "judge",
        "evaluators": {"judge": {"backend": "heuristic"}},
        "shards": SHARDS,
        "automation": {"look_back_days": days},
    }
    (folder / "suite.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    suite = load_suite(folder / "suite.yaml")
    for task in suite.task_names():
        assert not release(_store(suite), load_rubric(suite.path(suite.prompts) / task))
    return suite


def resize(suite: Suite, size: int) -> None:
    """Give every log and every table `size` bytes."""
    store = _store(suite)
    for day in _days(suite):
        tables = [store.table("logs/clean", day)]
        for task in suite.task_names():
            tables += [store.table(f"{task}/regenerated", day, s) for s in shard_keys(suite)]
        for path in [suite.path("logs") / f"{day}.jsonl", *tables]:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                file.truncate(size)


def make_fresh(suite: Suite) -> None:
    """Write the manifest of every unit of every day, as its run would."""
    store, tasks = _store(suite), suite.task_names()
    judges = [judge_of(suite, task, released_rubric(store, task)) for task in tasks]
    for day in _days(suite):
        signature = ingest_signature(suite, day)
        assert signature is not None
        ingested = Manifest(
            signature, "run", figures={"tasks": {t: f"rows of {t}" for t in tasks}, "rejected": 0}
        )
        write_manifest(ingest_manifest(store, day), ingested)
        for judge in judges:
            for shard in shard_keys(suite):
                content = signature_hash({"of": f"{judge.rubric.task} {day} {shard}"})
                write_manifest(
                    judge_manifest(suite, store, judge.rubric.task, day, shard),
                    Manifest(
                        judge_signature(suite, judge, ingested),
                        "run",
                        figures={"verdicts": content, "content": content, "unresolved": 0},
                    ),
                )
            scores = Manifest({}, "run", figures={"content": content})
            write_manifest(scores_manifest(store, judge.rubric.task, day), scores)
        publication = publish_signature(suite, store, day, tasks, ingested)
        write_manifest(
            publish_manifest(store, day),
            Manifest(publication, "run", figures={"warnings": {}}),
        )


@contextmanager
def instance_with(suite: Suite, runs: int) -> Iterator[dg.DagsterInstance]:
    """An instance in SQLite that remembers `runs` ended runs of the window; one in ten failed, then succeeded."""
    units: list[Unit] = []
    for day in _days(suite):
        units += [Unit("ingest", day), Unit("publish", day)]
        for task in suite.task_names():
            units += [Unit("judge", day, task, shard) for shard in shard_keys(suite)]
    with tempfile.TemporaryDirectory() as home, dg.DagsterInstance.local_temp(home) as instance:
        for number in range(runs):
            failed = number % 10 == 0
            unit = units[(number // 10 * 9 + max(number % 10 - 1, 0)) % len(units)]
            tags = {
                "dagster/partition": str(unit.partition),
                "dagster/run_key": f"{unit} | {number}",
                "dagster/sensor_name": "stale_partitions",
                SIGNATURE_TAG: signature_hash({"of": str(unit)}),
                ATTEMPT_TAG: "1" if failed else "2",
                **({FAILURE_TAG: "EvaluatorOutage"} if failed else {}),
            }
            status = dg.DagsterRunStatus.FAILURE if failed else dg.DagsterRunStatus.SUCCESS
            instance.add_run(
                dg.DagsterRun(job_name=unit.job, run_id=str(uuid.uuid4()), status=status, tags=tags)
            )
        yield instance


def measure(suite: Suite, instance: dg.DagsterInstance) -> dict[str, list[float]]:
    """The seconds of `TICKS` ticks of each sensor. Raises AssertionError where one asked for a run."""
    definitions = dg.Definitions(
        assets=build_assets(suite),
        jobs=build_jobs(suite),
        resources=build_resources(suite),
    )
    jobs = [definitions.resolve_job_def(job.name) for job in build_jobs(suite)]
    found = {}
    for sensor in [*automation_sensors(suite, jobs), alert_sensor(suite)]:
        seconds = found[sensor.name] = []
        for _ in range(TICKS):
            context = dg.build_sensor_context(instance=instance, definitions=definitions)
            start = time.perf_counter()
            result = sensor(context)
            seconds.append(time.perf_counter() - start)
            assert isinstance(result, dg.SensorResult)
            assert not result.run_requests, f"{sensor.name} asked for {len(result.run_requests)}"
    return found


def _days(suite: Suite) -> list[str]:
    days = suite.automation.look_back_days
    return [(suite.first_day + dt.timedelta(days=n)).isoformat() for n in range(days)]


def _store(suite: Suite) -> Store:
    return Store(suite.path(suite.store))


if __name__ == "__main__":
    main()
