"""In how much memory a shard is judged, and that the number of its records does not matter.

    python benchmarks/memory.py [--records 200000] [--small 50000]

Each shard is judged in a process of its own against benchmarks/instant_endpoint.py; what is reported is the
most memory that process held at once, libraries included. Prints a table, writes benchmarks/results/memory.json.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from processes import HERE, measured, served, verdict, write_results
from workload import chat_rubric, valid_answer, write_shard

TARGET_MIB = 600


def judged(records: int, base_url: str) -> dict[str, Any]:
    """Judge a shard of `records`; what its process measured."""
    with tempfile.TemporaryDirectory(prefix="gavel-memory-") as name:
        write_shard(Path(name) / "shard.parquet", records)
        return measured(HERE / "clients" / "judge_shard.py", [name, base_url])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=200_000, help="the shard that must fit")
    parser.add_argument("--small", type=int, default=50_000, help="the shard to compare it with")
    options = parser.parse_args()
    print(f"{'records':>9} {'peak MiB':>9} {'records/s':>10} {'CPU ms':>7}", flush=True)
    runs = []
    with served("instant_endpoint.py", json.dumps(valid_answer(chat_rubric()))) as base_url:
        for records in (options.small, options.records):
            run = judged(records, base_url)
            runs.append(run)
            print(
                f"{records:>9,} {run['peak_mib']:>9,.0f} {run['rate']:>10,.0f} {run['cpu_ms']:>7.2f}",
                flush=True,
            )
    small, large = runs
    more = large["peak_mib"] - small["peak_mib"]
    per_record = 1024 * more / max(1, large["records"] - small["records"])
    met = large["peak_mib"] < TARGET_MIB
    print(f"{more:+,.0f} MiB between the two, {per_record:.2f} KiB a record more")
    print(f"target under {TARGET_MIB} MiB: {verdict(met)}")
    write_results("memory", {"runs": runs, "target_mib": TARGET_MIB, "met": met})


if __name__ == "__main__":
    main()
