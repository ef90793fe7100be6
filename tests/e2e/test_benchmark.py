"""Evaluators side by side on labelled records, on a real instance: a good one, a misbehaving one, the floors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assets.benchmark import BENCHMARK, TABLE_KEY
from gavel.alignment.schema import LABELS
from gavel.logs.schema import CLEAN
from tests.e2e.conftest import Project, failure_of
from tests.e2e.test_daily import DAY, write_day
from tests.endpoint import Ask, Endpoint, Reply, answer_to

N = 40


def truth(number: int) -> dict[str, Any]:
    """What people say of record `number`: two intents, and a helpfulness from 1 to 5."""
    return {"helpfulness": 1.0 + number % 5, "acceptability": None, "number": number}


def number_in(ask: Ask) -> int:
    return int(ask.record.split("wall number ")[1].split("?")[0])


def good(ask: Ask) -> Reply:
    """Right about everything."""
    return Reply(
        json.dumps(answer_to(ask.body, helpfulness=int(truth(number_in(ask))["helpfulness"])))
    )


def misbehaving(ask: Ask) -> Reply:
    """Throttles, breaks off, and writes no JSON; never says anything but the lowest score."""
    number = number_in(ask)
    if number % 10 == 0 and ask.nth == 1:
        return Reply(status=500, body="overloaded")
    if number % 10 == 1 and len(ask.body["messages"]) == 2:
        return Reply("I would rather not.")
    if number % 10 == 2:
        return Reply(json.dumps(answer_to(ask.body, helpfulness=77)))
    return Reply(json.dumps(answer_to(ask.body, helpfulness=1)))


def behave(ask: Ask) -> Reply:
    return (good if ask.body["model"] == "good" else misbehaving)(ask)


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint(behave) as server:
        yield server


@pytest.fixture
def labelled(project: Project, endpoint: Endpoint) -> Project:
    """A day of logs, of which people have labelled the helpfulness and product of N records."""

    def model(name: str) -> dict[str, Any]:
        return {"backend": "openai_compatible", "base_url": endpoint.url, "model": name}

    project.write_suite(
        evaluators={
            "judge": {"backend": "heuristic"},
            "good": {**model("good"), "prices": {"prompt": 1, "completion": 2}},
            "shaky": {**model("shaky"), "prices": {"hour": 3.6}},
        },
        regeneration_attempts=1,
        alignment={"resamples": 200},
    )
    rows = [
        {
            "id": f"r{n}",
            "user_id": f"u{n}",
            "conversation_id": f"c{n // 2}",
            "start_time": f"2026-11-02T10:{n:02d}:00Z",
            "task": "chat",
            "prompt": f"How much paint do I need for wall number {n}?",
            "response": f"About {n} litres.",
        }
        for n in range(N + 5)
    ]
    write_day(project, rows)
    assert project.run("ingest_day", DAY).success
    assert project.run("release_rubrics").success
    ids = {
        row["record_id"]: row["row_id"]
        for row in pq.read_table(
            project.store.existing("logs/clean", DAY), schema=CLEAN
        ).to_pylist()
    }
    labels = [
        {
            "row_id": ids[f"r{n}"],
            "task": "chat",
            "field": "helpfulness",
            "annotator": who,
            "value": str(truth(n)["helpfulness"]),
            "number": truth(n)["helpfulness"],
            "status": "valid",
        }
        for n in range(N)
        for who in ("ann", "bob")
    ]
    first = answer_intent(project)
    labels += [
        {
            "row_id": ids[f"r{n}"],
            "task": "chat",
            "field": "intent",
            "annotator": "ann",
            "value": first,
            "number": None,
            "status": "valid",
        }
        for n in range(N)
    ]
    path = project.store.table("alignment/labels")
    path.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(labels, schema=LABELS), path)
    return project


def answer_intent(project: Project) -> str:
    """The first intent of the rubric, which the endpoint gives to everything."""
    from gavel.judge.releases import released_rubric

    return released_rubric(project.store, "chat").label_values["intent"][0]


def table(project: Project) -> dict[tuple[str, str, str | None, str | None], dict[str, Any]]:
    rows = pq.read_table(project.store.existing("benchmark/table")).to_pylist()
    return {
        (row["evaluator"], row["figure"], row["field"], row["key"]): row
        for row in rows
        if row["task"] == "chat"
    }


def test_the_table_says_of_each_evaluator_what_it_did(
    labelled: Project, endpoint: Endpoint
) -> None:
    names = labelled.suite.benchmarked()
    assert names == ["good", "judge", "shaky", "majority", "constant"]
    for name in names:
        result = labelled.run(BENCHMARK, name)
        assert result.success, failure_of(result)
    found = table(labelled)

    def value(name: str, figure: str, field: str | None = None, key: str | None = None) -> Any:
        return found[name, figure, field, key]["value"]

    for name in names:
        assert value(name, "records") == N
        assert value(name, "records_per_second") > 0
        assert found[name, "quality", None, None]["signature"].startswith(
            f"evaluator:{name}|task:chat|"
        )
    signature = found["good", "quality", None, None]["signature"]
    assert "|prices:1/2/0" in signature
    assert [name for name in names if found[name, "quality", None, None]["floor"]] == [
        *("judge", "majority", "constant")
    ]
    assert value("good", "mae", "helpfulness") == 0
    assert value("good", "spearman", "helpfulness") == pytest.approx(1)
    assert value("good", "macro_f1", "intent") == 1
    assert value("good", "invalid_rate") == 0
    assert value("good", "cost_usd_per_1000") == pytest.approx(1000 * (100 + 2 * 20) / 1e6)
    assert value("good", "prompt_tokens") == 100 * N
    assert value("good", "peak_concurrency") > 1

    # Four records broke their JSON and were mended by asking again, four stayed out of range.
    assert value("shaky", "invalid_rate") == pytest.approx(8 / N)
    assert value("shaky", "faults", None, "out_of_range") == 4
    assert value("shaky", "recovery_rate") == pytest.approx(0.5)
    assert value("shaky", "unresolved_rate") == pytest.approx(4 / N)
    assert value("shaky", "retries", None, "http_500") == 4
    speed = value("shaky", "records_per_second")
    assert value("shaky", "cost_usd_per_1000") == pytest.approx(1000 * 3.6 / 3600 / speed)
    assert value("shaky", "accuracy", "intent") == pytest.approx(36 / N), (
        "unresolved counts as wrong"
    )
    assert value("shaky", "mae", "helpfulness") == pytest.approx(2, abs=0.3)
    assert value("shaky", "spearman", "helpfulness") is None
    assert "undefined" in found["shaky", "spearman", "helpfulness", None]["note"]

    # Of 1 to 5, each as frequent, the constant says 3 and the majority the lowest of the most frequent.
    assert value("constant", "mae", "helpfulness") == pytest.approx(1.2)
    assert value("majority", "mae", "helpfulness") == pytest.approx(2)
    assert value("majority", "accuracy", "intent") == 1
    assert value("constant", "quadratic_kappa", "helpfulness") == pytest.approx(0)
    assert value("good", "quality") == pytest.approx(1)
    assert value("majority", "quality") == pytest.approx(0.5)
    assert value("good", "pareto") == 1
    assert value("shaky", "pareto") == 0

    tests = {
        (t["figure"], t["field"], t["first"], t["second"]): t
        for t in pq.read_table(labelled.store.existing("benchmark/comparisons")).to_pylist()
    }
    mcnemar = tests["accuracy", "intent", "good", "shaky"]
    # Four records that only the first has right: p = 2 / 2^4.
    assert mcnemar["p"] == pytest.approx(0.125)
    assert mcnemar["note"] == "only first right: 4, only second: 0"
    assert mcnemar["p_holm"] >= mcnemar["p"]
    kappa = tests["quadratic_kappa", "helpfulness", "good", "constant"]
    assert kappa["difference"] == pytest.approx(1)
    assert kappa["p"] < 0.05
    assert not [t for t in tests.values() if {t["first"], t["second"]} == {"majority", "constant"}]

    page = (labelled.store.root / "benchmark" / "table.html").read_text()
    assert "Quality against throughput" in page
    assert 'class="front"' in page
    event = labelled.instance.get_latest_materialization_event(TABLE_KEY)
    assert event is not None
    assert event.asset_materialization is not None
    assert "| chat | good | 1 |" in str(event.asset_materialization.metadata["standings"].value)

    # Nothing is asked twice, and what was measured stays measured.
    before = endpoint.total
    assert labelled.run(BENCHMARK, "good").success
    assert endpoint.total == before
    again = table(labelled)
    for key in ("records_per_second", "peak_concurrency", "latency_ms"):
        for row in found:
            if row[:2] == ("good", key):
                assert again[row]["value"] == found[row]["value"]


def test_an_endpoint_that_is_down_fails_alone(labelled: Project, endpoint: Endpoint) -> None:
    endpoint.behave = lambda ask: Reply(status=401, body={"error": {"message": "no key"}})
    result = labelled.run(BENCHMARK, "good")
    assert not result.success
    assert "HTTP 401" in failure_of(result)
    floor = labelled.run(BENCHMARK, "constant")
    assert floor.success, failure_of(floor)
    assert {key[0] for key in table(labelled)} == {"constant"}


def test_without_labels_the_assets_say_what_is_missing(project: Project) -> None:
    write_day(project, [])
    assert project.run("release_rubrics").success
    result = project.run(BENCHMARK, "judge")
    assert result.success, failure_of(result)
    page = (project.store.root / "benchmark" / "table.html").read_text()
    assert "no labels yet: materialise alignment/sample" in page
    rows = pq.read_table(project.store.existing("benchmark/table")).to_pylist()
    assert {row["n"] for row in rows} == {0}
    assert all(row["value"] in (None, 0) for row in rows)
    assert all(row["note"] for row in rows if row["value"] is None)
