"""A tiny task, shards of it, and judging them over HTTP; as a script, for a process to be killed."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gavel.inference.ledger import Ledger, latest, segments
from gavel.judge.backends import backend_of
from gavel.judge.evaluate import Judge, Judged, judge_shard, regenerate
from gavel.judge.prompts import RECORD_COLUMNS, Prompts
from gavel.judge.rubric import compile_rubric
from gavel.judge.worklist import write_invalid
from gavel.settings.judging import Evaluator
from gavel.store.tables import session

RUBRIC = compile_rubric(
    "tiny",
    {
        "rubric.yaml": """
            task: tiny
            version: 1
            description: A rubric small enough to see.
            rationale: false
            dimensions:
              helpfulness: {type: integer, min: 1, max: 5, description: whether it helps}
              clarity: {type: integer, min: 1, max: 5, description: whether it is clear}
        """,
        "labels.yaml": """
            topic:
              nested: subtopic
              values:
                paint: {values: {colour: {}, drying: {}}}
                tools: {values: {drill: {}, saw: {}}}
        """,
        "judge.j2": "{% block system %}Judge.{% endblock %}{% block user %}{{ record.prompt }}{% endblock %}",
        "repair.j2": (
            "{% block user %}Wrong:{% for f in faults %} [{{ f.code }}: {{ f.detail }}]{% endfor %}"
            "{% endblock %}"
        ),
    },
    "tiny",
)
GOOD: dict[str, Any] = {
    "helpfulness": 4,
    "clarity": 2,
    "topic": "tools",
    "subtopic": "saw",
    "confidence": 0.5,
}
"""A valid answer."""


def row_id(number: int) -> str:
    """The row_id of record `number`."""
    return hashlib.md5(str(number).encode()).hexdigest()


def answer(**changes: Any) -> str:
    """GOOD as JSON with `changes`; a field set to `...` is left out."""
    fields = {**GOOD, **changes}
    return json.dumps({name: value for name, value in fields.items() if value is not ...})


def write_shard(path: Path, records: int) -> Path:
    """A shard whose record n says "record n" and nothing else."""
    columns: dict[str, Any] = {name: pa.nulls(records, pa.string()) for name in RECORD_COLUMNS}
    columns["prompt"] = [f"record {n}" for n in range(records)]
    columns["response"] = ["a response"] * records
    columns["row_id"] = [row_id(n) for n in range(records)]
    columns["shard"] = pa.array([0] * records, pa.int32())
    columns["shard_row"] = pa.array(range(records), pa.int64())
    pq.write_table(pa.table(columns), path)
    return path


def judge_at(url: str, **settings: Any) -> Judge:
    """A judge of the tiny task by the model at `url`."""
    evaluator = Evaluator(
        backend="openai_compatible",
        model="m",
        base_url=url,
        **{"timeout": 5.0, "max_concurrency": 32, **settings},
    )
    return Judge(RUBRIC, Prompts(RUBRIC, "tiny"), "judge", evaluator, backend_of(evaluator))


@dataclass(frozen=True)
class Bench:
    """A folder with one shard, one ledger and the tables made of them."""

    folder: Path

    @property
    def verdicts(self) -> Path:
        """Where the first attempt's verdicts go."""
        return self.folder / "verdicts.parquet"

    @property
    def ledger(self) -> Path:
        """The ledger's folder."""
        return self.folder / "ledger"

    def judge(self, judge: Judge, records: int, run_id: str = "run") -> Judged:
        """Judge a shard of so many records."""
        shard = write_shard(self.folder / "shard.parquet", records)
        with Ledger.open(self.ledger, run_id, f"worker of {run_id}") as ledger:
            return judge_shard(judge, shard, ledger, self.verdicts)

    def regenerate(self, judge: Judge, attempts: int) -> list[dict[str, Any]]:
        """Ask again for the invalid verdicts; the rows of every attempt."""
        invalid, out = self.folder / "invalid.parquet", self.folder / "regenerated.parquet"
        write_invalid(self.verdicts, invalid)
        with Ledger.open(self.ledger, "again", "0") as ledger:
            shard = self.folder / "shard.parquet"
            regenerate(judge, shard, invalid, ledger, out, attempts)
        return pq.read_table(out).to_pylist()

    def rows(self) -> list[dict[str, Any]]:
        """The verdicts of the first attempt, which must be one a record and in the shard's order."""
        rows = pq.read_table(self.verdicts).to_pylist()
        assert [row["row_id"] for row in rows] == [row_id(n) for n in range(len(rows))]
        assert [row["shard_row"] for row in rows] == list(range(len(rows)))
        return rows

    def answers(self) -> list[Mapping[str, Any]]:
        """The answers that the ledger holds."""
        with session() as connection:
            return connection.sql(latest(segments(self.ledger))).to_arrow_table().to_pylist()


Judging = Callable[..., list[dict[str, Any]]]

if __name__ == "__main__":
    Bench(Path(sys.argv[1])).judge(judge_at(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
