"""How long the agreement of 13,000 labelled records takes: 8 fields, 2,000 bootstrap resamples of conversations.

    python benchmarks/agreement.py [RECORDS]

Two labels (14 and 156 classes) and six dimensions, five of them graded 1 to 5 against the mean of three
annotators, one a continuous number. Every figure of every field gets its interval. Prints a table and writes
benchmarks/results/agreement.json.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from gavel.agreement.bootstrap import Resampling
from gavel.agreement.dimensions import dimension_agreement
from gavel.agreement.labels import label_agreement

RESULTS = Path(__file__).parent / "results" / "agreement.json"
RECORDS = 13_000
TURNS = 3
TARGET = 20.0
RESAMPLING = Resampling(2000)


def measure(records: int) -> dict[str, float]:
    """Seconds a field; what is shared between fields is made anew for the first."""
    random = np.random.default_rng(1)
    conversations = random.integers(0, records // TURNS, records).tolist()
    seconds = {}

    def field(name: str, compute: Any) -> None:
        start = time.perf_counter()
        compute()
        seconds[name] = time.perf_counter() - start

    for classes in (14, 156):
        names = [f"class {n}" for n in range(classes)]
        truth = random.choice(names, records).tolist()
        said = [t if random.random() < 0.7 else names[random.integers(classes)] for t in truth]
        field(
            f"label of {classes}",
            lambda truth=truth, said=said, names=names: label_agreement(
                truth, said, conversations, names, RESAMPLING
            ),
        )
    for n in range(6):
        quality = random.uniform(1, 5, records)
        if n < 5:
            raters = np.clip(np.round(quality[:, None] + random.normal(0, 0.7, (records, 3))), 1, 5)
            human = raters.mean(axis=1)
            given = np.clip(np.round(quality + random.normal(0, 0.8, records)), 1, 5)
        else:
            human = quality
            given = quality + random.normal(0, 0.8, records)
        field(
            f"dimension {n + 1}" if n < 5 else "continuous dimension",
            lambda human=human, given=given: dimension_agreement(
                human.tolist(), given.tolist(), conversations, RESAMPLING
            ),
        )
    return seconds


def main() -> int:
    records = int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS
    seconds = measure(records)
    total = sum(seconds.values())
    for name, taken in seconds.items():
        print(f"{name:<22}{taken:8.2f} s")
    print(f"{'all':<22}{total:8.2f} s   (target: {TARGET:g} s)")
    RESULTS.parent.mkdir(exist_ok=True)
    found = {
        "records": records,
        "resamples": RESAMPLING.resamples,
        "seconds": seconds,
        "all": total,
    }
    RESULTS.write_text(json.dumps(found, indent=2), encoding="utf-8")
    return 0 if total < TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
