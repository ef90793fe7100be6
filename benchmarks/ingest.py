"""How fast and in how much memory a day of logs is read, cleaned and dealt out to shards.

    python benchmarks/ingest.py [ROWS]

Prints a table and writes benchmarks/results/ingest.json. Making up the rows (JSONL, about 500 bytes
each) is not timed; the work runs in a process of its own, whose peak memory is reported.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from gavel.logs.clean import clean, write_raw
from gavel.logs.shards import write_shard
from gavel.suite import Suite

T = TypeVar("T")

DAY = dt.date(2026, 11, 2)
TASKS = ["chat", "translation"]
SHARDS = 4
TARGET_SECONDS, TARGET_GIB = 90, 4
RESULTS = Path(__file__).parent / "results" / "ingest.json"

SPOKEN = (
    "can you tell me whether this cordless drill comes with two batteries and a charger or do I "
    "need to order them apart which grout fits porcelain tiles in a shower how much paint for a "
    "bedroom of twelve square metres is the oak laminate in stock in my store when will the "
    "delivery of the garden shed arrive thanks for your help returns within thirty days please"
)


def generate(path: Path, rows: int, seed: int = 7) -> None:
    """Write `rows` made-up log lines to `path`; one in a hundred has a defect."""
    chance = random.Random(seed)
    words = SPOKEN.split()
    sentences = [" ".join(chance.choices(words, k=chance.randint(8, 20))) for _ in range(20_000)]
    with path.open("w", encoding="utf-8") as file:
        for number in range(rows):
            second = number * 86_000 // rows
            row = {
                "message_id": f"m{number:09d}",
                "customer_id": f"u{chance.randrange(200_000)}",
                "session_id": f"s{number // 4}",
                "context_name": "shop",
                "start_time": _time(second),
                "end_time": _time(second + chance.randrange(1, 20)),
                "task": TASKS[number % 5 == 0],
                "question": chance.choice(sentences).capitalize() + f", {number}?",
                "answer": chance.choice(sentences).capitalize() + ".",
                "language": chance.choice(("en", "de", "fr", "el")),
                "input_source": "web",
                "out_of_coverage": "no",
                "tool_used": chance.choice(("search", "stock", None)),
                "agent_version": "1.4.2",
                "device": chance.choice(("phone", "desktop")),
                "retail_info": {"sku": chance.randrange(10**6), "store": "B12"},
            }
            if number % 100 == 99:
                row[chance.choice(("question", "answer", "customer_id", "start_time"))] = ""
            file.write(json.dumps(row) + "\n")


def _time(second: int) -> str:
    return f"2026-11-02T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}Z"


def work(folder: Path) -> dict[str, float]:
    """Read, clean and shard the rows in `folder`; seconds a stage, rows, and peak MiB."""
    suite = Suite.model_validate(
        {
            "first_day": DAY,
            "sources": [{"name": "web", "format": "jsonl", "path": str(folder / "{day}.jsonl")}],
            "evaluators": {"baseline": {"backend": "heuristic"}},
            "evaluator": "baseline",
        }
    )
    raw, cleaned = folder / "raw.parquet", folder / "clean.parquet"
    seconds: dict[str, float] = {}

    def timed(stage: str, run: Callable[[], T]) -> T:
        start = time.perf_counter()
        result = run()
        seconds[stage] = time.perf_counter() - start
        return result

    rows = timed("raw", lambda: write_raw(suite, DAY, raw))
    counts = timed("clean", lambda: clean(suite, raw, cleaned, folder / "rejected.parquet", TASKS))
    sharded = timed(
        "shards",
        lambda: sum(
            write_shard(cleaned, task, SHARDS, shard, folder / task / f"{shard}.parquet")
            for task in TASKS
            for shard in range(SHARDS)
        ),
    )
    assert rows == counts.raw
    assert counts.clean == sharded
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        **seconds,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "rows": rows,
        "rejected": counts.rejected,
        "peak_mib": used.ru_maxrss / 1024,
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("rows", type=int, nargs="?", default=2_000_000)
    arguments.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.work:
        print(json.dumps(work(options.work)))
        return
    with tempfile.TemporaryDirectory(prefix="gavel-ingest-") as name:
        source = Path(name) / f"{DAY}.jsonl"
        generate(source, options.rows)
        size = source.stat().st_size
        child = subprocess.run(
            [sys.executable, __file__, "--work", name], check=True, capture_output=True, text=True
        )
    measured = json.loads(child.stdout)
    total = measured["raw"] + measured["clean"] + measured["shards"]
    result = {
        **measured,
        "source_bytes": size,
        "seconds": total,
        "target_seconds": TARGET_SECONDS,
        "target_gib": TARGET_GIB,
        "cpus": os.cpu_count(),
        "load_at_end": os.getloadavg()[0],
    }
    print(f"{options.rows:,} rows, {size / 2**20:,.0f} MiB of JSONL, {os.cpu_count()} CPUs")
    print(f"{'stage':<8} {'seconds':>8} {'rows/s':>10}")
    for stage, seconds in [*((s, measured[s]) for s in ("raw", "clean", "shards")), ("all", total)]:
        print(f"{stage:<8} {seconds:>8.1f} {options.rows / seconds:>10,.0f}")
    print(f"CPU time {measured['cpu_seconds']:.1f} s")
    print(f"peak memory {measured['peak_mib']:,.0f} MiB (target {TARGET_GIB} GiB)")
    print(f"target {TARGET_SECONDS} s for 2,000,000 rows; load average {result['load_at_end']:.1f}")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
