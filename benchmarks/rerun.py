"""What it costs to run an unchanged day again: how long, and how many requests.

    python benchmarks/rerun.py [--records 50000]

A day of chat records is evaluated whole, from its log file to its report, by the jobs that `gavel-evaluate`
runs, in a suite, warehouse and Dagster instance of its own, against benchmarks/instant_endpoint.py. Then it is
run again, in a new process: every step is made again, every answer comes from the ledger. The server counts.
Prints a table, writes benchmarks/results/rerun.json.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import yaml
from meter import Meter
from processes import measured, posted, served, verdict, write_results
from workload import DAY, MODEL, PROMPTS, chat_rubric, log_lines, valid_answer

from gavel.judge.tables import VOLATILE
from gavel.store.files import Store
from gavel.store.tables import content_hash, row_count

TARGET_SECONDS = 10
SHARDS = 4


def prepare(folder: Path, records: int, base_url: str) -> None:
    """A suite in `folder` that judges one day of `records` at `base_url`."""
    shutil.copytree(PROMPTS / "chat", folder / "prompts" / "chat")
    with (folder / f"{DAY}.jsonl").open("w") as file:
        file.writelines(log_lines(records))
    evaluator = {"backend": "openai_compatible", "model": MODEL, "base_url": base_url}
    suite = {
        "first_day": DAY,
        "last_day": DAY,
        "sources": [{"name": "web", "format": "jsonl", "path": "{day}.jsonl"}],
        "evaluator": "instant",
        "evaluators": {"instant": evaluator},
        "shards": SHARDS,
        "quality": {"max_invalid_rate": 1.0},
    }
    (folder / "suite.yaml").write_text(yaml.safe_dump(suite))
    (folder / "dagster.yaml").write_text("telemetry: {enabled: false}\n")


def work(folder: Path) -> None:
    """Run every step of the day, and report the seconds each took."""
    os.environ |= {"GAVEL_SUITE": str(folder / "suite.yaml"), "DAGSTER_HOME": str(folder)}
    os.chdir(folder)
    import dagster as dg

    from assets.jobs import steps_of_a_day
    from definitions import defs, suite

    quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    meter = Meter()
    seconds: Counter[str] = Counter()
    with dg.DagsterInstance.get() as instance:
        for name, partition in steps_of_a_day(suite, DAY.isoformat()):
            start = time.perf_counter()
            defs.resolve_job_def(name).execute_in_process(
                instance=instance, partition_key=partition, run_config=quiet
            )
            seconds[name] += time.perf_counter() - start
    meter.report(row_count(_scores(folder)), steps=seconds)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work)
        return
    found: list[dict[str, Any]] = []
    with (
        served("instant_endpoint.py", json.dumps(valid_answer(chat_rubric()))) as base_url,
        tempfile.TemporaryDirectory(prefix="gavel-rerun-") as name,
    ):
        prepare(Path(name), options.records, base_url)
        for number in range(3):
            before = posted(base_url)
            run = measured(Path(__file__), ["--work", name])
            run["requests"] = posted(base_url) - before
            run["scores"] = content_hash(_scores(Path(name)), VOLATILE)
            found.append(run)
            print(
                f"run {number + 1}: {run['seconds']:.1f} s, {run['requests']:,} requests",
                flush=True,
            )
    first, again = found[0], min(found[1:], key=lambda run: run["seconds"])
    print(f"\n{'step':<20} {'first run':>10} {'run again':>10}  (seconds)")
    for step, seconds in again["steps"].items():
        print(f"{step:<20} {first['steps'][step]:>10.2f} {seconds:>10.2f}")
    print(f"{'all':<20} {first['seconds']:>10.2f} {again['seconds']:>10.2f}")
    requests = sum(run["requests"] for run in found[1:])
    met = again["seconds"] < TARGET_SECONDS and requests == 0
    print(f"{first['records']:,} scores; equal in every run: {_equal(found)}")
    print(
        f"requests of the runs again: {requests} (target 0), under {TARGET_SECONDS} s: {verdict(met)}"
    )
    write_results("rerun", {"runs": found, "target_seconds": TARGET_SECONDS, "met": met})


def _equal(found: list[dict[str, Any]]) -> bool:
    return len({run["scores"] for run in found}) == 1


def _scores(folder: Path) -> Path:
    return Store(folder / "data").table("chat/scores", DAY.isoformat())


if __name__ == "__main__":
    main()
