"""What every evaluator keeps to, whatever answers for it: subclasses give the judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema

from gavel.inference.ledger import latest, segments
from gavel.judge.evaluate import Judge
from gavel.store.tables import session

from .judging import RUBRIC, Bench


class Contract:
    """Tests of an evaluator; `judge(**settings)` makes one of the tiny task."""

    RECORDS = 24

    def judge(self, **settings: Any) -> Judge:
        raise NotImplementedError

    def answers(self, ledger: Path) -> list[dict[str, Any]]:
        with session() as connection:
            found = connection.sql(latest(segments(ledger))).to_arrow_table().to_pylist()
        return list(found)

    def test_every_answer_fits_the_rubrics_schema_and_says_whose_it_is(self, bench: Bench) -> None:
        judged = bench.judge(self.judge(), self.RECORDS)
        assert (judged.rows, judged.valid) == (self.RECORDS, self.RECORDS), judged.faults
        answers = self.answers(bench.ledger)
        assert len(answers) == self.RECORDS
        for answer in answers:
            jsonschema.validate(json.loads(answer["text"]), RUBRIC.response_schema())
        assert all(answer["model_revision"] for answer in answers)
        assert all(row["finish_reason"] == "stop" for row in bench.rows())

    def test_what_was_answered_is_not_asked_again(self, bench: Bench) -> None:
        bench.judge(self.judge(), self.RECORDS // 2, "first")
        before = {a["request_hash"]: a["answered_at"] for a in self.answers(bench.ledger)}
        judged = bench.judge(self.judge(), self.RECORDS, "second")
        assert judged.asked.known == self.RECORDS // 2
        after = {a["request_hash"]: a["answered_at"] for a in self.answers(bench.ledger)}
        assert before.items() <= after.items()
        assert len(after) == self.RECORDS


class ModelContract(Contract):
    """What evaluators with a model keep to besides."""

    def test_an_answer_cut_short_is_named(self, bench: Bench) -> None:
        judged = bench.judge(self.judge(max_tokens=4), 4)
        assert dict(judged.faults) == {"truncated": 4}
