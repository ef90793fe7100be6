"""Gavel: judge the shard in FOLDER against BASE_URL; Parquet in, ledger and verdicts out."""

from __future__ import annotations

import sys
from pathlib import Path

from meter import Meter
from workload import MODEL, chat_rubric

from gavel.inference.ledger import Ledger
from gavel.judge.backends import backend_of
from gavel.judge.evaluate import Judge, judge_shard
from gavel.judge.prompts import Prompts
from gavel.settings.judging import Evaluator


def main(folder: Path, base_url: str) -> None:
    meter = Meter()
    rubric = chat_rubric()
    evaluator = Evaluator(backend="openai_compatible", model=MODEL, base_url=base_url)
    judge = Judge(rubric, Prompts(rubric, "chat"), "judge", evaluator, backend_of(evaluator))
    with Ledger.open(folder / "ledger", "benchmark", "0") as ledger:
        judged = judge_shard(judge, folder / "shard.parquet", ledger, folder / "verdicts.parquet")
    meter.report(judged.rows, valid=judged.valid, requests=judged.asked.sent)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
