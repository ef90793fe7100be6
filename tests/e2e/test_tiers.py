"""A day judged by a small evaluator, a panel and a larger one: who is asked what, who decides, what is kept."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gavel.alignment.schema import LABELS
from gavel.judge.escalation import audited
from gavel.report.day import accounting
from gavel.report.quality import Figures
from tests.e2e.conftest import Project, failure_of
from tests.e2e.test_daily import CHAT, DAY, ROWS, write_day
from tests.endpoint import Ask, Endpoint, Reply, answer_to

LOW, LOST = ("wall number 3?", "wall number 4?"), "wall number 5?"


def behave(ask: Ask) -> Reply:
    """Each model scores in its own way; the small one is unsure of two records and breaks on one."""
    model = ask.body["model"]
    scores = {"small": 2, "medium": 3, "other": 5, "large": 4}[model]
    confidence = 0.2 if model == "small" and any(low in ask.record for low in LOW) else 0.9
    if model == "small" and LOST in ask.record:
        return Reply("no JSON today")
    if model == "large" and LOW[1] in ask.record:
        return Reply("nor from me")
    return Reply(json.dumps(answer_to(ask.body, helpfulness=scores, confidence=confidence)))


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint(behave) as server:
        yield server


def tiered(project: Project, endpoint: Endpoint, **chat: Any) -> Project:
    def model(name: str, price: float) -> dict[str, Any]:
        return {
            "backend": "openai_compatible",
            "base_url": endpoint.url,
            "model": name,
            "prices": {"prompt": price, "completion": price},
        }

    project.write_suite(
        evaluator="small",
        evaluators={
            "small": model("small", 1),
            "medium": model("medium", 2),
            "other": model("other", 3),
            "large": model("large", 50),
        },
        tasks={"chat": chat},
        regeneration_attempts=1,
        shards=1,
    )
    write_day(project, ROWS)
    return project


def scores(project: Project) -> dict[str, dict[str, Any]]:
    rows = pq.read_table(project.store.existing("chat/scores", DAY)).to_pylist()
    return {row["record_id"]: row for row in rows}


def label(project: Project, helpfulness: dict[str, float]) -> None:
    """Write what people say of some records' helpfulness, as alignment/labels has it."""
    ids = {name: row["row_id"] for name, row in scores(project).items()}
    rows = [
        {
            "row_id": ids[name],
            "task": "chat",
            "field": "helpfulness",
            "annotator": "ann",
            "number": value,
            "status": "valid",
        }
        for name, value in helpfulness.items()
    ]
    path = project.store.table("alignment/labels")
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=LABELS), path)


def figures(project: Project) -> Figures:
    return Figures(pq.read_table(project.store.existing("chat/quality", DAY)))


def asked(endpoint: Endpoint) -> Counter[str]:
    """How many first attempts each model was asked for on the chat records."""
    return Counter(
        body["model"]
        for body in endpoint.bodies
        if len(body["messages"]) == 2
        and "wall number" in body["messages"][1]["content"]
        and "source_text" not in body["messages"][1]["content"]
    )


def test_a_larger_evaluator_decides_what_the_rules_pick(
    project: Project, endpoint: Endpoint
) -> None:
    escalation = {
        "evaluator": "large",
        "below_confidence": 0.5,
        "high_risk": [{"conversation_id": "c0", "user_id": ["u1", "u2"]}],
        "audit_share": 0.1,
    }
    tiered(project, endpoint, escalation=escalation).evaluate(DAY)
    table = scores(project)
    drawn = {name for name, row in table.items() if audited(row["row_id"], 0.1)}
    picked = {"r1", "r2", "r3", "r4", "r5"} | drawn
    assert len(table) == CHAT
    assert {name for name, row in table.items() if row["escalated"]} == picked
    assert table["r1"]["escalated"][0] == "high_risk"
    assert "low_confidence" in table["r3"]["escalated"]
    assert "unresolved" in table["r5"]["escalated"]
    for name, row in table.items():
        # The larger one is wrong in its turn about r4: what the small one said of it stands.
        second = name in picked and name != "r4"
        assert row["tier"] == ("second" if second else "first"), name
        assert row["evaluator"] == ("large" if second else "small")
        assert row["helpfulness"] == (4 if second else 2)
        assert (row["status"], row["votes"], row["disagreement"]) == ("valid", 1, None)
    assert (table["r5"]["attempts"], table["r5"]["model"]) == (2, "large")
    assert asked(endpoint) == {"small": CHAT, "large": len(picked)}
    for equality in accounting(project.suite, project.store, DAY, ["chat", "translation"]):
        assert equality.holds, equality

    found = figures(project)
    assert found.value("escalated") == len(picked)
    assert found.value("escalated", None, "low_confidence") == 2
    assert found.value("decided", None, "second") == len(picked) - 1
    # 120 tokens an answer at 50 dollars a million; r4 was asked twice.
    assert found.value("opinions_cost_usd", None, "second") == pytest.approx(
        (len(picked) + 1) * 120 * 50 / 1e6
    )
    # Of the records it decided, r5 had no value before, and all others another.
    assert found.value("changed", "helpfulness") == 1
    assert found.value("changed", "clarity") == 0
    assert found.n("changed", "clarity") == len(picked) - 2
    assert (found.value("invalid"), found.value("repaired")) == (1, 0), "another decided r5"
    assert found.value("mae_after", "helpfulness") is None
    assert "people labelled no escalated record" in (found.note("mae_after", "helpfulness") or "")
    # People label three escalated records, on one of which the larger one failed, and one that was not.
    label(
        project, {"r1": 4.0, "r3": 5.0, "r4": 4.0, "r10": 1.0} | dict.fromkeys(drawn - {"r10"}, 4.0)
    )
    assert project.run("publish_day", DAY).success
    found = figures(project)
    known = len({"r1", "r3", "r4"} | drawn)
    before = {**dict.fromkeys(drawn, 2.0), "r1": 2.0, "r3": 3.0, "r4": 2.0}
    after = {**dict.fromkeys(drawn, 0.0), "r1": 0.0, "r3": 1.0, "r4": 2.0}
    assert found.n("mae_before", "helpfulness") == known
    assert found.value("mae_before", "helpfulness") == pytest.approx(sum(before.values()) / known)
    assert found.value("mae_after", "helpfulness") == pytest.approx(sum(after.values()) / known)
    page = (project.store.root / "report" / f"{DAY}.html").read_text()
    assert "What escalating bought" in page
    assert "Cost of escalating" in page

    before = endpoint.total
    project.evaluate(DAY)
    assert endpoint.total == before, "nothing is asked twice"


def test_a_panel_is_made_one_and_its_disagreement_escalates(
    project: Project, endpoint: Endpoint
) -> None:
    tiered(
        project,
        endpoint,
        panel={"members": ["medium", "other"], "aggregate": "mean"},
        escalation={"evaluator": "large", "above_disagreement": 0.062},
    ).evaluate(DAY)
    table = scores(project)
    usual = table["r0"]
    # 2, 3 and 5 of 1 to 5, and agreement in the other eleven fields: 3/4 of one field in twelve.
    fields = 12
    assert usual["disagreement"] == pytest.approx(0.75 / fields)
    assert usual["tier"] == "second", "0.0625 is more than 0.062"
    lost = table["r5"]
    # Two votes, 3 and 5: 2/4 of one field in twelve, below the bound.
    assert (lost["tier"], lost["votes"], lost["helpfulness"]) == ("panel", 2, 4.0)
    assert lost["disagreement"] == pytest.approx(0.5 / fields)
    assert (lost["status"], lost["evaluator"]) == ("valid", "small+medium+other")
    assert lost["model"] == "medium", "whose words are shown: the first that has valid ones"
    assert (table["r4"]["tier"], table["r4"]["votes"]) == ("panel", 3)
    assert table["r4"]["helpfulness"] == pytest.approx(10 / 3)
    assert asked(endpoint)["medium"] == CHAT
    assert asked(endpoint)["large"] == CHAT - 1
    assert figures(project).value("decided", None, "panel") == 2
    for equality in accounting(project.suite, project.store, DAY, ["chat", "translation"]):
        assert equality.holds, equality


def test_a_rule_over_no_column_stops_the_shard_with_a_sentence(
    project: Project, endpoint: Endpoint
) -> None:
    tiered(project, endpoint, escalation={"evaluator": "large", "high_risk": [{"mood": "bad"}]})
    project.run("ingest_day", DAY)
    project.run("release_rubrics")
    result = project.run("judge_chat_shard", f"{DAY}|0")
    assert not result.success
    assert "'mood' is no column of a record or verdict" in failure_of(result)


def test_a_changed_rule_makes_the_shard_stale_and_asks_only_what_is_new(
    project: Project, endpoint: Endpoint
) -> None:
    tiered(project, endpoint, escalation={"evaluator": "large"}).evaluate(DAY)
    assert asked(endpoint)["large"] == 1, "only what is unresolved"
    before = asked(endpoint)
    project.write_suite(
        tasks={"chat": {"escalation": {"evaluator": "large", "below_confidence": 0.5}}}
    )
    project.evaluate(DAY)
    assert asked(endpoint) - before == {"large": 2}
