"""How long it takes to simulate the fashion benchmark's 1,334 conversations with scripted sides.

    python benchmarks/fashion.py [--conversations N]

From goals to verified conversations, through the ledger on disk, in a process that has loaded every library.
Prints a line and writes benchmarks/results/fashion.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "fashion.json"
TARGET = 60.0
"""Seconds."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conversations", type=int, default=1334)
    chosen = parser.parse_args()
    from gavel.fashion.benchmark import Bench, write_goals, write_simulated, write_verified
    from gavel.fashion.simulate import Ground
    from gavel.settings.fashion import Fashion
    from gavel.store.files import Store
    from gavel.store.tables import row_count
    from gavel.suite import load_suite

    settings = Fashion(evaluation=chosen.conversations, development=0)
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(
            Ground(load_suite(ROOT / "suite.yaml"), settings), Store(Path(folder)), "bench"
        )
        started = time.perf_counter()
        write_goals(bench)
        pairs = row_count(write_simulated(bench))
        conversations = row_count(write_verified(bench))
        seconds = time.perf_counter() - started
    print(
        f"{conversations:,} conversations, {pairs:,} message pairs: {seconds:.1f} s "
        f"({conversations / seconds:,.0f} conversations/s; target under {TARGET:.0f} s)"
    )
    RESULTS.parent.mkdir(exist_ok=True)
    found = {"conversations": conversations, "pairs": pairs, "seconds": seconds, "target": TARGET}
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    return 0 if seconds < TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
