"""Days judged by a real endpoint through the whole graph: reuse, repair, outage, governed prompts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from gavel.judge.tables import VOLATILE
from gavel.report.day import accounting
from tests.e2e.conftest import Project, failure_of
from tests.endpoint import Ask, Endpoint, Reply, answer_to, valid

DAY = "2026-11-02"
CHAT, TRANSLATION = 24, 12


def row(number: int, task: str = "chat", **changes: Any) -> dict[str, Any]:
    return {
        "id": f"r{number}",
        "user_id": f"u{number}",
        "conversation_id": f"c{number // 3}",
        "start_time": f"2026-11-02T10:{number % 60:02d}:00Z",
        "task": task,
        "prompt": f"How much paint do I need for wall number {number}?",
        "response": f"About {number} litres; take one more to be safe.",
        "source_text": f"Bucket {number}" if task == "translation" else None,
        **changes,
    }


ROWS = [row(n, "chat" if n < CHAT else "translation") for n in range(CHAT + TRANSLATION)]


def write_day(project: Project, rows: list[dict[str, Any]], day: str = DAY) -> None:
    text = "".join(json.dumps(r) + "\n" for r in rows)
    Path(project.folder, "logs", f"{day}.jsonl").write_text(text, encoding="utf-8")


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint(valid) as server:
        yield server


@pytest.fixture
def judged(project: Project, endpoint: Endpoint) -> Project:
    """The project, with the endpoint for its judge and a day of logs."""
    judge = {"backend": "openai_compatible", "base_url": endpoint.url, "model": "judge-7b"}
    project.write_suite(evaluators={"judge": {**judge, "prices": {"prompt": 1, "completion": 2}}})
    write_day(project, ROWS)
    return project


def scores(project: Project, task: str = "chat") -> Path:
    return project.store.existing(f"{task}/scores", DAY)


def stable_bytes(path: Path, folder: Path) -> bytes:
    """The Parquet bytes of a table without its volatile columns."""
    table = pq.read_table(path)
    out = folder / "stable.parquet"
    pq.write_table(table.select([n for n in table.column_names if n not in VOLATILE]), out)
    return out.read_bytes()


def test_a_day_run_twice_asks_nothing_and_gives_equal_bytes(
    judged: Project, endpoint: Endpoint, tmp_path: Path
) -> None:
    judged.evaluate(DAY)
    first = [stable_bytes(scores(judged, task), tmp_path) for task in ("chat", "translation")]
    assert endpoint.total == CHAT + TRANSLATION
    judged.evaluate(DAY)
    again = [stable_bytes(scores(judged, task), tmp_path) for task in ("chat", "translation")]
    assert endpoint.total == CHAT + TRANSLATION
    assert again == first
    with duckdb.connect(str(judged.suite.path(judged.suite.warehouse)), read_only=True) as db:
        assert db.execute("SELECT count(*) FROM chat_scores").fetchall() == [(CHAT,)]


def test_pages_of_records_go_when_they_are_not_wanted_any_more(judged: Project) -> None:
    folder = judged.store.root / "report" / DAY
    for wanted in (3, 1, 0):
        judged.write_suite(quality={"record_pages": wanted})
        judged.evaluate(DAY)
        assert len(list(folder.glob("*.html"))) == 2 * wanted, "of either task"


def test_late_rows_alone_are_asked(judged: Project, endpoint: Endpoint) -> None:
    judged.evaluate(DAY)
    before = endpoint.total
    write_day(judged, [row(900), *ROWS[:10], row(901), *ROWS[10:], row(902)])
    judged.evaluate(DAY)
    assert endpoint.total == before + 3
    assert pq.read_table(scores(judged)).num_rows == CHAT + 3


def test_a_changed_translation_prompt_asks_translations_again_and_nothing_else(
    judged: Project, endpoint: Endpoint
) -> None:
    judged.evaluate(DAY)
    before = endpoint.total
    folder = judged.folder / "prompts" / "translation"
    original = {name: (folder / name).read_text() for name in ("judge.j2", "rubric.yaml")}
    (folder / "judge.j2").write_text(
        original["judge.j2"].replace("{% block user -%}", "{% block user -%}\nJudge strictly.\n")
    )
    refused = judged.run("release_rubrics")
    assert not refused.success, "the content changed and the version did not"
    (folder / "rubric.yaml").write_text(original["rubric.yaml"].replace("version: 1", "version: 2"))
    judged.evaluate(DAY)
    assert endpoint.total == before + TRANSLATION
    versions = set(pq.read_table(scores(judged, "translation"))["prompt_version"].to_pylist())
    assert versions == {"2"}
    for name, text in original.items():
        (folder / name).write_text(text)
    judged.evaluate(DAY)
    assert endpoint.total == before + TRANSLATION, "the first rubric's answers are still there"


def test_invalid_verdicts_are_asked_again_and_the_rest_is_unresolved(
    judged: Project, endpoint: Endpoint
) -> None:
    def behave(ask: Ask) -> Reply:
        if "wall number 3?" in ask.record:
            return Reply("I would rather talk about the weather.")
        if "wall number 5?" in ask.record and len(ask.body["messages"]) == 2:
            return Reply(json.dumps(answer_to(ask.body, helpfulness=98989)))
        return valid(ask)

    endpoint.behave = behave
    judged.evaluate(DAY)
    table = {r["record_id"]: r for r in pq.read_table(scores(judged)).to_pylist()}
    lost, repaired = table["r3"], table["r5"]
    assert (lost["status"], lost["score"], lost["helpfulness"]) == ("unresolved", None, None)
    assert (lost["faults"], lost["attempts"]) == (["not_json"], 4)
    assert (repaired["status"], repaired["attempts"], repaired["regenerated"]) == ("valid", 2, True)
    assert endpoint.total == CHAT + TRANSLATION + 3 + 1
    for equality in accounting(judged.suite, judged.store, DAY, ["chat", "translation"]):
        assert equality.holds, equality
    with duckdb.connect(str(judged.suite.path(judged.suite.warehouse)), read_only=True) as db:
        rows = db.execute("SELECT record_id FROM chat_scores ORDER BY 1").fetchall()
    assert ("r3",) not in rows, "an unresolved record is never published as a score"
    assert len(rows) == CHAT - 1
    events = pq.read_table(judged.store.existing("audit/events", DAY)).to_pylist()
    kinds = [(e["kind"], e["code"]) for e in events if e["kind"] != "publication"]
    assert sorted(kinds) == sorted(
        [("validation_failure", "not_json")] * 4
        + [("validation_failure", "out_of_range")]
        + [("regeneration", "invalid")] * 3
        + [("regeneration", "valid")]
    )
    page = (judged.store.root / "report" / f"{DAY}.html").read_text(encoding="utf-8")
    assert "Unresolved" in page
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")


def test_an_outage_fails_the_run_with_one_sentence_and_loses_no_answer(
    judged: Project, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gavel.inference.dispatch._BACKOFF", 0.01)
    judged.run("ingest_day", DAY)
    judged.run("release_rubrics")
    healthy = 5

    def dying(ask: Ask) -> Reply:
        return (
            valid(ask) if endpoint.total <= healthy else Reply(status=500, body={"error": "down"})
        )

    endpoint.behave = dying
    settings = judged.settings["evaluators"]["judge"]
    judged.write_suite(evaluators={"judge": {**settings, "max_concurrency": 1}})
    failed = judged.run("judge_chat_shard", f"{DAY}|0")
    assert not failed.success
    assert endpoint.url in failure_of(failed)
    assert "run again" in failure_of(failed)
    assert not judged.store.table("chat/verdicts", DAY, "0").exists()
    endpoint.behave = valid
    assert judged.run("judge_chat_shard", f"{DAY}|0").success
    assert sum(endpoint.answered.values()) == CHAT // 2, "no finished request is repeated"


@pytest.mark.parametrize(
    ("change", "job", "expected"),
    [
        (
            {"sources": [{"name": "s", "format": "jsonl", "path": "nowhere/{day}.jsonl"}]},
            "ingest_day",
            "nowhere",
        ),
        (
            {
                "sources": [
                    {
                        "name": "s",
                        "format": "jsonl",
                        "path": "logs/{day}.jsonl",
                        "columns": {"prompt": "utterance"},
                    }
                ]
            },
            "ingest_day",
            "utterance",
        ),
    ],
)
def test_a_wrong_source_is_one_sentence(
    judged: Project, change: dict[str, Any], job: str, expected: str
) -> None:
    judged.evaluate(DAY)
    before = scores(judged).read_bytes()
    judged.write_suite(**change)
    failed = judged.run(job, DAY)
    assert not failed.success
    assert expected in failure_of(failed)
    assert "Traceback" not in failure_of(failed)
    assert scores(judged).read_bytes() == before


@pytest.mark.parametrize(("status", "hint"), [(401, "OPENAI_API_KEY"), (404, "model")])
def test_an_endpoint_that_refuses_is_asked_once_and_named(
    judged: Project, endpoint: Endpoint, status: int, hint: str
) -> None:
    judged.run("ingest_day", DAY)
    judged.run("release_rubrics")
    endpoint.behave = lambda ask: Reply(status=status, body={"error": {"message": "no"}})
    failed = judged.run("judge_chat_shard", f"{DAY}|0")
    assert not failed.success
    assert hint in failure_of(failed)
    assert endpoint.url in failure_of(failed)
    assert endpoint.total == 1


def test_a_new_task_is_a_new_folder(judged: Project, endpoint: Endpoint) -> None:
    folder = judged.folder / "prompts" / "politeness"
    folder.mkdir()
    (folder / "rubric.yaml").write_text(
        "task: politeness\nversion: 1\ndescription: How polite it is\nrationale: false\n"
        "dimensions:\n  politeness: {type: number, min: 0, max: 1, description: how polite}\n"
    )
    (folder / "judge.j2").write_text(
        "{% block system %}Judge politeness.{% endblock %}"
        "{% block user %}{{ record.response | fence }}{% endblock %}"
    )
    (folder / "repair.j2").write_text("{% block user %}{{ faults[0].code }}{% endblock %}")
    write_day(judged, [*ROWS, row(500, "politeness")])
    judged.evaluate(DAY)
    assert pq.read_table(scores(judged, "politeness"))["politeness"].to_pylist() == [0.0]


def test_verdicts_are_made_again_from_the_ledger_and_asked_again_without_it(
    judged: Project, endpoint: Endpoint
) -> None:
    judged.evaluate(DAY)
    verdicts = judged.store.existing("chat/verdicts", DAY, "0")
    before, asked = pq.read_table(verdicts), endpoint.total
    verdicts.unlink()
    assert judged.run("judge_chat_shard", f"{DAY}|0").success
    again = pq.read_table(verdicts)
    stable = [name for name in before.column_names if name not in VOLATILE]
    assert again.select(stable).equals(before.select(stable))
    assert again["reused"].to_pylist() == [True] * (CHAT // 2)
    assert endpoint.total == asked
    for segment in judged.store.ledger(f"chat/{DAY}").glob("*.parquet"):
        segment.unlink()
    assert judged.run("judge_chat_shard", f"{DAY}|0").success
    assert endpoint.total == asked + CHAT // 2


def test_fewer_shards_never_replace_the_scores_of_a_day_by_a_part_of_them(judged: Project) -> None:
    judged.evaluate(DAY)
    before = scores(judged).read_bytes()
    judged.write_suite(shards=1)
    failed = judged.run("publish_day", DAY)
    assert not failed.success
    assert "judge every shard of the day again" in failure_of(failed)
    assert scores(judged).read_bytes() == before
    judged.evaluate(DAY)
    assert pq.read_table(scores(judged)).num_rows == CHAT


def test_a_day_whose_rows_are_mostly_rejected_says_so_on_its_page(judged: Project) -> None:
    write_day(judged, [*ROWS[:4], *(row(n, prompt="") for n in range(100, 106))])
    judged.evaluate(DAY)
    page = (judged.store.root / "report" / f"{DAY}.html").read_text(encoding="utf-8")
    assert "6 of 10 source rows (60.0%) were rejected" in page


def test_a_record_lost_on_its_way_is_judged_by_the_next_run_and_no_other_is_asked(
    judged: Project, endpoint: Endpoint
) -> None:
    judge = judged.settings["evaluators"]["judge"]
    judged.write_suite(evaluators={"judge": judge | {"retries": 0}}, regeneration_attempts=0)
    endpoint.behave = lambda ask: Reply(status=500) if "number 3?" in str(ask.body) else valid(ask)
    judged.evaluate(DAY)
    statuses = pq.read_table(scores(judged))["status"].to_pylist()
    assert statuses.count("unresolved") == 1
    before = endpoint.total
    endpoint.behave = valid
    judged.evaluate(DAY)
    assert endpoint.total == before + 1
    assert set(pq.read_table(scores(judged))["status"].to_pylist()) == {"valid"}
    judged.evaluate(DAY)
    assert endpoint.total == before + 1
