"""What an evaluator that misbehaves costs: requests a record until every record has its verdict.

    python benchmarks/faults.py [--records 20000]

benchmarks/faulty_endpoint.py answers with 5% malformed, 2% out of range, 2% HTTP 429, 1% HTTP 500 and 1% truncated
replies, by chance at each ask. The shard is judged, and its invalid records are asked again up to three times.
Requests are counted by the server. Prints a table, writes benchmarks/results/faults.json.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from faulty_endpoint import RATES
from processes import posted, served, verdict, write_results
from workload import MODEL, chat_rubric, valid_answer, write_shard

from gavel.inference.ledger import Ledger
from gavel.judge.backends import backend_of
from gavel.judge.evaluate import Judge, judge_shard, regenerate
from gavel.judge.prompts import Prompts
from gavel.judge.worklist import outcome, write_invalid
from gavel.settings.judging import Evaluator

ATTEMPTS = 3
TARGET = 1.15


def judged(folder: Path, records: int, base_url: str) -> dict[str, Any]:
    """Judge `records` and regenerate; what became of them, attempt by attempt."""
    shard, verdicts, invalid, regenerated = (
        folder / f"{name}.parquet" for name in ("shard", "verdicts", "invalid", "regenerated")
    )
    write_shard(shard, records)
    rubric = chat_rubric()
    evaluator = Evaluator(backend="openai_compatible", model=MODEL, base_url=base_url)
    judge = Judge(rubric, Prompts(rubric, "chat"), "judge", evaluator, backend_of(evaluator))
    start = time.perf_counter()
    with Ledger.open(folder / "ledger", "benchmark", "0") as ledger:
        results = [judge_shard(judge, shard, ledger, verdicts)]
        work = write_invalid(verdicts, invalid)
        results += regenerate(judge, shard, invalid, ledger, regenerated, ATTEMPTS)
    became = outcome(invalid, regenerated)
    return {
        "records": records,
        "seconds": time.perf_counter() - start,
        "attempts": [
            {
                "records": result.rows,
                "valid": result.valid,
                "faults": dict(result.faults),
                "tries_repeated": result.asked.retries,
            }
            for result in results
        ],
        "valid_at_once": work.valid,
        "repaired": became.repaired,
        "unresolved": became.unresolved,
        "asked_every_time": results[-1].invalid if len(results) == ATTEMPTS + 1 else 0,
        "requests": posted(base_url),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=20_000)
    options = parser.parse_args()
    answer = json.dumps(valid_answer(chat_rubric()))
    with (
        served("faulty_endpoint.py", answer) as base_url,
        tempfile.TemporaryDirectory(prefix="gavel-faults-") as name,
    ):
        result = judged(Path(name), options.records, base_url)
    print("replies by chance: " + ", ".join(f"{k} {share:.0%}" for k, share in RATES.items()))
    print(f"{'attempt':>7} {'records':>8} {'valid':>8} {'tries repeated':>15}  faults")
    for number, attempt in enumerate(result["attempts"], 1):
        faults = ", ".join(f"{code} {count:,}" for code, count in sorted(attempt["faults"].items()))
        print(
            f"{number:>7} {attempt['records']:>8,} {attempt['valid']:>8,} "
            f"{attempt['tries_repeated']:>15,}  {faults}"
        )
    resolved = result["valid_at_once"] + result["repaired"]
    complete = (
        resolved + result["unresolved"] == result["records"]
        and result["unresolved"] == result["asked_every_time"]
    )
    each = result["requests"] / result["records"]
    print(
        f"{result['records']:,} records: {resolved:,} resolved, {result['unresolved']} unresolved "
        f"after {ATTEMPTS + 1} invalid answers each, in {result['seconds']:.0f} s"
    )
    print(f"complete after regeneration: {verdict(complete)}")
    print(f"requests a record: {each:.3f} (target {TARGET}: {verdict(each <= TARGET)})")
    write_results("faults", {**result, "rates": RATES, "requests_a_record": each, "target": TARGET})


if __name__ == "__main__":
    main()
