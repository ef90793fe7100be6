"""Operational figures of verdicts whose times, tokens and faults are known."""

from __future__ import annotations

import datetime as dt
from typing import Any

import polars as pl
import pytest

from gavel.benchmark.operations import Measured, operations
from gavel.settings.judging import Evaluator
from tests.gavel.benchmark.conftest import START, answers, verdicts

PRICED = {"backend": "openai_compatible", "base_url": "http://x", "model": "m"}


def measured(table: pl.DataFrame, **settings: Any) -> dict[tuple[str, str | None], Measured]:
    evaluator = Evaluator.model_validate(PRICED | settings)
    return {(m.figure, m.key): m for m in operations(table, answers(table), evaluator)}


def at(table: pl.DataFrame, **columns: list[Any]) -> pl.DataFrame:
    return table.with_columns(
        *(pl.Series(name, values, dtype=table.schema[name]) for name, values in columns.items())
    )


def test_speed_is_over_the_time_of_asking_run_by_run() -> None:
    one_by_one = verdicts("e", 10, lambda n: {}, latency=100)
    found = measured(one_by_one)
    # Ten requests of a tenth of a second, one after another.
    assert found["records_per_second", None].value == pytest.approx(10)
    assert found["peak_concurrency", None].value == 1
    assert found["latency_ms", "p99"].value == pytest.approx(100)
    # The second half in another run a day later: the night does not count.
    later = [
        t if n < 5 else t + dt.timedelta(days=1) for n, t in enumerate(one_by_one["evaluated_at"])
    ]
    in_two = at(one_by_one, evaluated_at=later, run_id=["a"] * 5 + ["b"] * 5)
    assert measured(in_two)["records_per_second", None].value == pytest.approx(10)
    # All at once: a tenth of a second for ten.
    at_once = at(one_by_one, evaluated_at=[START] * 10)
    assert measured(at_once)["records_per_second", None].value == pytest.approx(100)
    assert measured(at_once)["peak_concurrency", None].value == 10


def test_latency_quantiles_are_of_answers_not_of_records() -> None:
    table = verdicts("e", 4, lambda n: {})
    shared = at(table, request_hash=["a", "a", "a", "b"], latency_ms=[100.0, 100.0, 100.0, 300.0])
    found = measured(shared)
    assert found["latency_ms", "p50"].value == pytest.approx(200)
    assert found["prompt_tokens", None].value == 2000


def test_faults_retries_and_recovery() -> None:
    def says(n: int) -> dict[str, Any]:
        faults = {0: ["not_json"], 1: ["not_json", "out_of_range"]}.get(n, [])
        return {
            "faults": faults,
            "status": "invalid" if faults else "valid",
            "retries": ["http_429", "timeout"] if n == 2 else [],
        }

    first = verdicts("e", 10, says)
    second = verdicts("e", 1, lambda n: {"attempt": 2, "request_hash": "again"})
    found = measured(pl.concat([first, second]))
    assert found["invalid_rate", None].value == pytest.approx(0.2)
    assert found["recovery_rate", None].value == pytest.approx(0.5)
    assert found["unresolved_rate", None].value == pytest.approx(0.1)
    assert (found["faults", "not_json"].value, found["faults", "out_of_range"].value) == (2, 1)
    assert found["retries", None].value == 2
    assert found["retries", "timeout"].value == 1
    assert found["retries", None].n == 11


@pytest.mark.parametrize(
    ("settings", "cost", "note"),
    [
        # 10 answers of 1,000 and 100 tokens on 10 records; an hour's price over one second.
        ({"prices": {"prompt": 1.0, "completion": 10.0}}, 2.0, "list prices"),
        ({"prices": {"hour": 3.6}}, 0.1, "3.6 dollars an hour of the machine"),
        ({}, None, "undefined: the evaluator has no prices in suite.yaml"),
        ({"backend": "heuristic"}, 0.0, "rules cost nothing"),
    ],
)
def test_cost(settings: dict[str, Any], cost: float | None, note: str) -> None:
    found = measured(verdicts("e", 10, lambda n: {}), **settings)["cost_usd_per_1000", None]
    assert (found.value, found.note) == (pytest.approx(cost) if cost else cost, note)


def test_tokens_that_nobody_reports_are_undefined() -> None:
    silent = verdicts(
        "e", 3, lambda n: {"prompt_tokens": None, "completion_tokens": None, "cost_usd": None}
    )
    found = measured(silent, prices={"prompt": 1.0})
    for key in (("prompt_tokens", None), ("cost_usd_per_1000", None)):
        assert found[key].value is None
        assert str(found[key].note).startswith("undefined: no answer reports it")


def test_answers_that_are_only_compared_with_others_cost_too() -> None:
    table = verdicts("e", 10, lambda n: {})
    further = answers(verdicts("more", 10, lambda n: {}))
    evaluator = Evaluator.model_validate(PRICED | {"prices": {"prompt": 1.0, "completion": 10.0}})
    both = pl.concat([answers(table), further])
    found = {(m.figure, m.key): m for m in operations(table, both, evaluator)}
    assert found["cost_usd_per_1000", None].value == pytest.approx(4.0)
    assert found["prompt_tokens", None].value == 20_000
    assert found["peak_concurrency", None].value == 2
    assert found["records", None].value == 10


def test_nothing_judged_is_undefined_everywhere() -> None:
    for measure in measured(verdicts("e", 0, lambda n: {})).values():
        assert measure.value is None or measure.value == 0
        if measure.value is None:
            assert str(measure.note).startswith("undefined")
