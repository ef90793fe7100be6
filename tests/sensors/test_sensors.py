"""Ticks of the sensors on a real instance, over a real project."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pyarrow.parquet as pq
import pytest

from assets import processes
from assets.processes import _started, process_tags
from assets.signatures import publish_manifest
from gavel.report.quality import Figures
from gavel.store.manifests import Manifest, write_manifest
from sensors.alerting import alert_sensor
from sensors.automation import automation_sensors
from sensors.inventory import (
    LEFT_FAILED,
    OLDER,
    Older,
    inventory_checks,
    older_stale,
    why_incomplete,
)
from sensors.loaded import Loaded
from sensors.state import State, failed_units
from sensors.units import Unit
from tests.e2e.conftest import Project, project  # noqa: F401 (a fixture)
from tests.e2e.test_daily import ROWS, row, write_day
from tests.endpoint import Ask, Endpoint, Reply, valid
from tests.gavel.test_alerts import Receiver

DAY = "2026-11-02"


@pytest.fixture
def kept(project: Project) -> Iterator[Project]:  # noqa: F811
    """The project with one day of logs, in a window that holds it whatever today is."""
    project.write_suite(first_day=DAY, last_day="2026-11-03")
    write_day(project, ROWS)
    return project


def tick(project: Project, name: str, cursor: str | None = None) -> dg.SensorResult:  # noqa: F811
    """One tick on the definitions of the suite as it is now."""
    return loaded(project, name)(cursor)


def loaded(project: Project, name: str) -> Callable[[str | None], dg.SensorResult]:  # noqa: F811
    """The ticks of a sensor on the definitions of the suite as it is now, whatever is written later."""
    definitions = project.definitions()
    jobs = [definitions.resolve_job_def(n) for n in _jobs(project)]
    sensors = {
        s.name: s for s in [*automation_sensors(project.suite, jobs), alert_sensor(project.suite)]
    }

    def ticked(cursor: str | None = None) -> dg.SensorResult:
        context = dg.build_sensor_context(
            instance=project.instance,
            cursor=cursor,
            definitions=definitions,
        )
        result = sensors[name](context)
        assert isinstance(result, dg.SensorResult)
        for request in result.run_requests or []:
            partitions = definitions.resolve_job_def(str(request.job_name)).partitions_def
            if partitions is not None:
                assert partitions.has_partition_key(str(request.partition_key)), (
                    "else the tick fails"
                )
        return result

    return ticked


def _jobs(project: Project) -> list[str]:  # noqa: F811
    tasks = project.suite.task_names()
    return [
        "ingest_day",
        "release_rubrics",
        "publish_day",
        *(f"judge_{t}_shard" for t in tasks),
        *(f"regenerate_{t}_shard" for t in tasks),
    ]


def asked(result: dg.SensorResult) -> list[tuple[str, str | None]]:
    return [(str(r.job_name), r.partition_key) for r in result.run_requests or []]


def follow(project: Project, result: dg.SensorResult) -> None:  # noqa: F811
    """Run what a tick asked for, as the daemon would."""
    for request in result.run_requests or []:
        done = (
            project.definitions()
            .resolve_job_def(str(request.job_name))
            .execute_in_process(
                instance=project.instance,
                partition_key=request.partition_key,
                tags={**request.tags, "dagster/run_key": str(request.run_key)},
                raise_on_error=False,
            )
        )
        assert done.success


def follow_judging(project: Project) -> None:  # noqa: F811
    """Run what the sensors ask for of days that have arrived, until every shard is judged."""
    for name in ("log_arrivals", "rubric_releases", "stale_partitions"):
        follow(project, tick(project, name))


def test_a_day_goes_its_way_by_ticks_alone_and_then_nothing_is_asked(kept: Project) -> None:
    assert asked(tick(kept, "stale_partitions")) == []
    arrivals = tick(kept, "log_arrivals")
    assert asked(arrivals) == [("ingest_day", DAY)]
    follow(kept, arrivals)
    follow(kept, tick(kept, "rubric_releases"))
    shards = tick(kept, "stale_partitions")
    assert sorted(asked(shards)) == sorted(
        (f"judge_{task}_shard", f"{DAY}|{s}") for task in ("chat", "translation") for s in "01"
    )
    follow(kept, shards)
    publication = tick(kept, "stale_partitions")
    assert asked(publication) == [("publish_day", DAY)]
    follow(kept, publication)
    for name in (
        "log_arrivals",
        "rubric_releases",
        "stale_partitions",
        "failed_partitions",
        "unresolved_records",
    ):
        assert asked(tick(kept, name)) == [], name


def test_drift_is_measured_again_once_the_days_before_have_settled(kept: Project) -> None:
    days = [DAY, "2026-11-03", "2026-11-04"]
    kept.write_suite(last_day=days[-1], shards=1)
    for day in days:
        write_day(kept, ROWS, day)

    def step() -> list[tuple[str, str | None]]:
        """One tick, newest first, and what it asked for done."""
        result = tick(kept, "stale_partitions")
        follow(kept, result)
        return [part for part in asked(result) if part[0] == "publish_day"]

    def compared() -> list[bool]:
        """Whether each day's quality is against some day before it."""
        tables = [pq.read_table(kept.store.existing("chat/quality", day)) for day in days]
        return [bool(Figures(table).n("trailing_mean", "score")) for table in tables]

    follow(kept, tick(kept, "log_arrivals"))
    follow(kept, tick(kept, "rubric_releases"))
    follow(kept, tick(kept, "stale_partitions"))
    kept.store.document(f"chat/regenerated/{DAY}/0").unlink()
    assert step() == [("publish_day", day) for day in days[1:]], "oldest first"
    # The first day comes last: those after it are compared with it once, when it is done.
    assert step() == [("publish_day", DAY)]
    assert compared() == [False, False, True]
    assert step() == [("publish_day", day) for day in days[1:]]
    assert compared() == [False, True, True]
    assert step() == []

    write_day(kept, [*ROWS, ROWS[0] | {"id": "late"}])
    follow(kept, tick(kept, "log_arrivals"))
    assert step() == []
    assert step() == [("publish_day", DAY)]
    assert step() == [("publish_day", day) for day in days[1:]]
    assert step() == []


def test_days_evaluated_in_order_are_published_once_each(kept: Project) -> None:
    days = [DAY, "2026-11-03"]
    kept.write_suite(shards=1)
    for day in days:
        write_day(kept, ROWS, day)
    for day in days:
        kept.evaluate(day)
    assert asked(tick(kept, "stale_partitions")) == []


def test_a_day_that_is_given_up_keeps_no_later_day_from_being_measured_again(
    kept: Project,
) -> None:
    days = [DAY, "2026-11-03", "2026-11-04"]
    kept.write_suite(last_day=days[-1], shards=1, automation={"attempts": 1})
    for day in days:
        write_day(kept, ROWS, day)
    for day in (days[0], days[2], days[1]):
        kept.evaluate(day)
    write_day(kept, [*ROWS, ROWS[0] | {"id": "late"}])
    follow(kept, tick(kept, "log_arrivals"))
    shards = tick(kept, "stale_partitions")
    assert asked(shards) == [("judge_chat_shard", f"{DAY}|0")], "the last day waits for the first"
    folder = kept.store.root / "chat" / "shards" / DAY
    shutil.rmtree(folder)
    folder.write_text("a file where a folder should be")
    for request in shards.run_requests or []:
        run(kept, request)
    assert ("publish_day", "2026-11-04") in asked(tick(kept, "stale_partitions"))


def test_the_same_state_of_the_world_has_the_same_run_keys(kept: Project) -> None:
    first, again = tick(kept, "log_arrivals"), tick(kept, "log_arrivals", cursor="{broken")
    assert [r.run_key for r in first.run_requests or []] == [
        r.run_key for r in again.run_requests or []
    ]


def test_a_file_that_changed_or_vanished_is_seen(kept: Project) -> None:
    follow(kept, tick(kept, "log_arrivals"))
    assert asked(tick(kept, "log_arrivals")) == []
    log = Path(kept.folder, "logs", f"{DAY}.jsonl")
    with log.open("a", encoding="utf-8") as more:
        more.write(json.dumps(ROWS[0] | {"id": "late"}) + "\n")
    assert asked(tick(kept, "log_arrivals")) == [("ingest_day", DAY)]
    log.unlink()
    gone = tick(kept, "log_arrivals")
    assert asked(gone) == []
    assert DAY in str(gone.skip_reason)
    assert kept.store.existing("logs/clean", DAY).exists(), "a vanished day is kept"


def test_another_time_zone_or_first_day_asks_for_the_ingest_of_the_days_it_concerns(
    kept: Project,
) -> None:
    def instants() -> list[dt.datetime]:
        clean = pq.read_table(kept.store.existing("logs/clean", DAY))
        return list(clean["start_time"].to_pylist())

    without_offset = [r | {"start_time": r["start_time"].rstrip("Z")} for r in ROWS]
    write_day(kept, without_offset)
    follow(kept, tick(kept, "log_arrivals"))
    before = instants()
    kept.write_suite(timezone="Asia/Tokyo")
    again = tick(kept, "log_arrivals")
    assert asked(again) == [("ingest_day", DAY)]
    assert {r.tags["gavel/cause"] for r in again.run_requests or []} == {"time zone"}
    follow(kept, again)
    assert {b - a for b, a in zip(before, instants(), strict=True)} == {dt.timedelta(hours=9)}
    assert asked(tick(kept, "log_arrivals")) == []
    kept.write_suite(first_day="2026-11-01")
    assert asked(tick(kept, "log_arrivals")) == [], "the file's name says the day"


def test_rows_without_a_date_move_with_the_first_day(kept: Project) -> None:
    def rejected() -> list[int]:
        made = [kept.store.table("logs/rejected", day) for day in ("2026-11-01", DAY)]
        return [pq.read_table(path).num_rows for path in made if path.exists()]

    source = {
        "name": "shop",
        "format": "jsonl",
        "path": "logs/all.jsonl",
        "date_column": "start_time",
    }
    kept.write_suite(sources=[source], last_day=DAY)
    earlier = [
        r | {"id": f"e{r['id']}", "start_time": f"2026-11-01{r['start_time'][10:]}"} for r in ROWS
    ]
    write_day(kept, [*earlier, *ROWS, ROWS[0] | {"id": "undated", "start_time": "?"}], "all")
    follow(kept, tick(kept, "log_arrivals"))
    assert rejected() == [1]
    kept.write_suite(first_day="2026-11-01")
    again = tick(kept, "log_arrivals")
    assert asked(again) == [("ingest_day", day) for day in (DAY, "2026-11-01")]
    follow(kept, again)
    assert rejected() == [1, 0]
    assert asked(tick(kept, "log_arrivals")) == []


def test_what_the_loaded_definitions_do_not_have_waits_for_a_reload(kept: Project) -> None:
    kept.write_suite(shards=1)
    kept.evaluate(DAY)
    arrivals, stale = loaded(kept, "log_arrivals"), loaded(kept, "stale_partitions")
    releases = loaded(kept, "rubric_releases")
    kept.write_suite(shards=2, first_day="2026-11-01")
    write_day(kept, ROWS, "2026-11-01")
    without = arrivals(None)
    assert asked(without) == []
    assert "first_day 2026-11-02 -> 2026-11-01" in str(without.skip_reason)
    assert "Deployment > Reload" in str(without.skip_reason)
    part = stale(None)
    assert sorted(asked(part)) == [
        (f"judge_{t}_shard", f"{DAY}|0") for t in ("chat", "translation")
    ]
    follow(kept, part)
    rest = stale(None)
    assert asked(rest) == []
    assert "shards 1 -> 2" in str(rest.skip_reason)
    assert f"judge chat {DAY} 1" in str(rest.skip_reason)
    shutil.copytree(kept.folder / "prompts" / "chat", kept.folder / "prompts" / "other")
    rubric = kept.folder / "prompts" / "other" / "rubric.yaml"
    rubric.write_text(rubric.read_text().replace("task: chat", "task: other"))
    assert asked(releases(None)) == [], "the job would release the other tasks alone"
    assert "no day is published until a rubric is released for other" in str(
        stale(None).skip_reason
    )
    # Reloaded, all is asked for.
    shutil.rmtree(rubric.parent)
    assert asked(tick(kept, "log_arrivals")) == [("ingest_day", "2026-11-01")]
    assert sorted(asked(tick(kept, "stale_partitions"))) == [
        (f"judge_{t}_shard", f"{DAY}|1") for t in ("chat", "translation")
    ]


@pytest.mark.parametrize(
    ("changes", "unit", "runs"),
    [
        ({}, Unit("judge", DAY, "chat", "1"), True),
        ({"shards": 4}, Unit("judge", DAY, "chat", "3"), False),
        ({"shards": 4}, Unit("judge", DAY, "chat", "1"), True),
        ({"first_day": "2026-10-31"}, Unit("judge", "2026-11-01", "chat", "0"), False),
        ({"first_day": "2026-10-31"}, Unit("publish", "2026-11-01"), False),
        ({"first_day": "2026-10-31"}, Unit("publish", DAY), True),
        ({"last_day": None}, Unit("ingest", "2026-11-04"), False),
        ({"judged": True}, Unit("judge", DAY, "chat", "0"), False),
        ({"judged": True}, Unit("judge", DAY, "translation", "0"), True),
    ],
)  # fmt: skip
def test_what_the_loaded_definitions_can_run(
    kept: Project, changes: dict[str, object], unit: Unit, runs: bool
) -> None:
    before = Loaded(kept.suite, kept.suite.task_names())
    if changes.pop("judged", False):
        heuristic = {"backend": "heuristic"}
        changes["evaluators"] = {"judge": heuristic, "large": heuristic}
        changes["tasks"] = {"chat": {"escalation": {"evaluator": "large"}}}
    kept.write_suite(**changes)
    assert before.can_run(unit, kept.suite) == runs
    assert bool(before.changes(kept.suite)) == bool(changes)


def test_a_half_written_manifest_is_made_again_under_a_key_of_its_own(kept: Project) -> None:
    for name, unit in (
        ("log_arrivals", f"logs/clean/{DAY}"),
        ("stale_partitions", f"chat/regenerated/{DAY}/0"),
        ("stale_partitions", f"report/{DAY}"),
    ):
        if name == "stale_partitions":
            follow(kept, tick(kept, "rubric_releases"))
        first = tick(kept, name)
        follow(kept, first)
        kept.store.document(unit).write_text('{"signature": {"co')
        again = tick(kept, name)
        (request,) = again.run_requests or []
        assert request.tags["gavel/cause"] == "its manifest cannot be read"
        assert request.run_key not in {r.run_key for r in first.run_requests or []}
        follow(kept, again)
        assert asked(tick(kept, "log_arrivals")) == []


def test_a_log_folder_that_cannot_be_reached_is_told_and_nothing_is_lost(kept: Project) -> None:
    folder = kept.folder / "logs"
    moved = folder.rename(kept.folder / "unreachable")
    missing = tick(kept, "log_arrivals")
    assert asked(missing) == []
    assert missing.skip_reason
    moved.rename(folder)
    assert asked(tick(kept, "log_arrivals")) == [("ingest_day", DAY)]


def test_a_clock_that_jumps_changes_nothing_that_is_asked(kept: Project) -> None:
    follow(kept, tick(kept, "log_arrivals"))
    future = dt.datetime.now(dt.UTC) + dt.timedelta(days=3650)
    state = State(kept.suite, kept.store, future)
    assert state.days == ["2026-11-03", "2026-11-02"]
    past = State(kept.suite, kept.store, dt.datetime(2020, 1, 1, tzinfo=dt.UTC))
    assert past.days == []


def blocked_shard(project: Project, attempts: int) -> dg.RunRequest:  # noqa: F811
    """The request of a shard whose runs fail, of a suite with so many attempts and no pause between them."""
    project.write_suite(automation={"attempts": attempts, "backoff": 0})
    follow(project, tick(project, "log_arrivals"))
    follow(project, tick(project, "rubric_releases"))
    folder = project.store.root / "chat" / "shards"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / DAY).write_text("a file where a folder should be")
    shards = tick(project, "stale_partitions").run_requests or []
    return next(r for r in shards if r.job_name == "judge_chat_shard")


def test_failures_are_retried_then_given_up_and_told_once(kept: Project) -> None:
    request = blocked_shard(kept, attempts=2)
    run(kept, request)
    again = tick(kept, "failed_partitions")
    assert asked(again) == [("judge_chat_shard", request.partition_key)]
    (second,) = again.run_requests or []
    assert second.run_key != request.run_key
    run(kept, second)
    spent = tick(kept, "failed_partitions")
    assert asked(spent) == []
    assert "given up" in str(spent.skip_reason)
    told = tick(kept, "alerts")
    assert "1 told" in str(told.skip_reason)
    quiet = tick(kept, "alerts", cursor=told.cursor)
    assert "0 told, 1 open" in str(quiet.skip_reason)
    assert "1 told" in str(tick(kept, "alerts", cursor="not json").skip_reason)
    reason = why_incomplete(State(kept.suite, kept.store, dt.datetime.now(dt.UTC)), DAY)
    assert "units to run" in reason


def test_what_the_budget_stopped_goes_on_when_it_is_raised(kept: Project) -> None:
    with Endpoint(valid) as endpoint:
        judge = {"backend": "openai_compatible", "base_url": endpoint.url, "model": "judge-7b"}
        kept.write_suite(evaluators={"judge": judge | {"max_concurrency": 1}})
        follow(kept, tick(kept, "log_arrivals"))
        follow(kept, tick(kept, "rubric_releases"))
        first, *others = tick(kept, "stale_partitions").run_requests or []
        follow(kept, dg.SensorResult(run_requests=others))
        spent = endpoint.total
        # Set late in the day, it counts what was spent before.
        kept.write_suite(budget={"requests": spent + 2})
        run(kept, first)
        assert endpoint.total == spent + 2
        waits = tick(kept, "failed_partitions")
        assert asked(waits) == []
        assert "waiting for their time" in str(waits.skip_reason)
        kept.write_suite(budget={"requests": 1_000})
        again = tick(kept, "failed_partitions")
        assert asked(again) == [(first.job_name, first.partition_key)]
        follow(kept, again)
        assert set(endpoint.answered.values()) == {1}


def test_a_change_half_made_and_taken_back_leaves_its_shard_stale(kept: Project) -> None:
    with Endpoint(valid) as endpoint:
        judge = {"backend": "openai_compatible", "base_url": endpoint.url, "model": "judge-7b"}
        kept.write_suite(evaluators={"judge": judge}, automation={"attempts": 1}, shards=1)
        follow_judging(kept)
        folder = kept.folder / "prompts" / "chat"
        rubric, template = (folder / "rubric.yaml").read_text(), (folder / "judge.j2").read_text()

        def change(version: int, text: str) -> None:
            (folder / "rubric.yaml").write_text(rubric.replace("version: 1", f"version: {version}"))
            (folder / "judge.j2").write_text(text)
            follow(kept, tick(kept, "rubric_releases"))

        change(2, template.replace("{% block user -%}", "{% block user -%}\nStrictly.\n"))
        (request,) = tick(kept, "stale_partitions").run_requests or []
        # The run ends between its verdicts and what comes after them.
        blocked = kept.store.root / "chat" / "invalid" / DAY / "0.parquet"
        blocked.unlink()
        blocked.mkdir()
        run(kept, request)
        blocked.rmdir()
        change(1, template)
        again = tick(kept, "stale_partitions")
        (back,) = [r for r in again.run_requests or [] if r.job_name == "judge_chat_shard"]
        assert back.tags["gavel/cause"] == "unfinished"
        assert back.run_key not in (request.run_key, None)
        follow(kept, again)
        assert [r for r in asked(tick(kept, "stale_partitions")) if r[0] == request.job_name] == []
        verdicts = pq.read_table(kept.store.existing("chat/verdicts", DAY, "0"))
        assert set(verdicts["prompt_version"].to_pylist()) == {"1"}


def test_a_rubric_that_comes_back_is_released_each_time(kept: Project) -> None:
    folder = kept.folder / "prompts" / "chat"
    first = (folder / "rubric.yaml").read_text()
    keys = set()
    for text in [first, first.replace("version: 1", "version: 2")] * 3:
        (folder / "rubric.yaml").write_text(text)
        result = tick(kept, "rubric_releases")
        (request,) = result.run_requests or []
        keys.add(request.run_key)
        follow(kept, result)
        assert asked(tick(kept, "rubric_releases")) == []
    assert len(keys) == 6, "a key that was used is skipped for ever"


def test_a_source_out_of_reach_keeps_nothing_else_from_being_tried_again(kept: Project) -> None:
    request = blocked_shard(kept, attempts=2)
    run(kept, request)
    (kept.folder / "logs").rename(kept.folder / "unreachable")
    assert asked(tick(kept, "failed_partitions")) == [(request.job_name, request.partition_key)]
    assert "told" in str(tick(kept, "alerts").skip_reason)


def test_a_run_by_hand_that_fails_ends_neither_the_retries_nor_the_alert(kept: Project) -> None:
    request = blocked_shard(kept, attempts=3)
    by_hand = dg.RunRequest(job_name=request.job_name, partition_key=request.partition_key)
    run(kept, request)
    run(kept, by_hand)
    (again,) = tick(kept, "failed_partitions").run_requests or []
    assert (again.partition_key, again.tags["gavel/attempt"]) == (request.partition_key, "3")
    run(kept, again)
    told = tick(kept, "alerts")
    assert "1 told, 1 open" in str(told.skip_reason)
    run(kept, by_hand)
    assert "given up" in str(tick(kept, "failed_partitions").skip_reason)
    assert "0 told, 1 open" in str(tick(kept, "alerts", cursor=told.cursor).skip_reason)


def test_an_alert_that_one_receiver_refuses_is_told_once_to_the_others(
    kept: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Receiver() as receiver:
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        monkeypatch.setenv("HOOK", f"http://127.0.0.1:{receiver.server_address[1]}/")
        monkeypatch.setitem(sys.modules, "slack_sdk", None)
        told = {"webhook_url_env": "HOOK", "slack_token_env": "SLACK", "slack_channel": "#a"}
        kept.write_suite(automation={"attempts": 1, "alerts": told})
        (request,) = tick(kept, "log_arrivals").run_requests or []
        log = Path(kept.folder, "logs", f"{DAY}.jsonl")
        log.rename(log.with_suffix(".away"))
        run(kept, request)
        log.with_suffix(".away").rename(log)
        cursor = None
        for skipped in ("1 told, 1 open; ", "0 told, 1 open; ", "0 told, 1 open; "):
            result = tick(kept, "alerts", cursor=cursor)
            cursor = result.cursor
            assert f"{skipped}alerts to Slack need the extra" in str(result.skip_reason)
        assert receiver.kinds == ["failed_for_good"]
        receiver.shutdown()


def test_what_drifted_is_told_once_whatever_its_figures_become(kept: Project) -> None:
    def published(number: int, noted: dict[str, str] | None = None) -> None:
        # More invalid verdicts with each late row, and so another sentence.
        sentence = f"chat: {number}.0% of {number} verdicts were invalid."
        manifest = Manifest(
            {}, "run", figures={"warnings": noted or {"chat invalid_rate": sentence}}
        )
        write_manifest(publish_manifest(kept.store, DAY), manifest)

    cursor = None
    for number, expected in ((10, "1 told, 1 open"), (20, "0 told, 1 open")):
        published(number)
        result = tick(kept, "alerts", cursor=cursor)
        cursor = result.cursor
        assert expected in str(result.skip_reason)
    published(30, {"chat drift score": "chat: score moved."})
    result = tick(kept, "alerts", cursor=cursor)
    assert "1 told, 1 open" in str(result.skip_reason)
    published(30)
    assert "1 told, 1 open" in str(tick(kept, "alerts", cursor=result.cursor).skip_reason)


def test_a_unit_that_succeeded_since_has_not_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sensors.state._PAGE", 1)  # however many runs came after it
    mended, broken = Unit("ingest", "2026-11-02"), Unit("ingest", "2026-11-03")
    failure, success = dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.SUCCESS
    since = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
    with dg.DagsterInstance.ephemeral() as instance:
        for unit, status in (
            (mended, failure),
            (broken, success),
            (broken, failure),
            (mended, success),
        ):
            tags = {"dagster/partition": unit.day}
            instance.add_run(dg.DagsterRun(job_name=unit.job, status=status, tags=tags))
        assert [f.unit for f in failed_units(instance, since)] == [broken]
        assert {f.unit for f in failed_units(instance, since, mended=True)} == {broken, mended}


def run(project: Project, request: dg.RunRequest) -> None:  # noqa: F811
    failed = (
        project.definitions()
        .resolve_job_def(str(request.job_name))
        .execute_in_process(
            instance=project.instance,
            partition_key=request.partition_key,
            tags={**request.tags, "dagster/run_key": str(request.run_key)},
            raise_on_error=False,
        )
    )
    assert not failed.success


def test_days_before_the_window_are_listed_with_what_a_back_fill_would_ask(kept: Project) -> None:
    def older() -> list[Older]:
        return older_stale(State(kept.suite, kept.store, dt.datetime.now(dt.UTC)))

    kept.write_suite(last_day="2026-11-09", automation={"look_back_days": 400})
    follow_judging(kept)
    follow(kept, tick(kept, "stale_partitions"))
    kept.write_suite(automation={"look_back_days": 2})
    assert older() == []
    judge = kept.settings["evaluators"]["judge"]
    kept.write_suite(evaluators={"judge": judge | {"seed": 8}})
    (found,) = older()
    assert (found.day, found.causes) == (DAY, ["evaluator"])
    assert found.units == 2 * len(kept.suite.task_names()) + 1
    assert found.requests == len(ROWS)
    assert asked(tick(kept, "stale_partitions")) == [], "they are left alone"
    kept.write_suite(evaluators={"judge": judge})
    write_day(kept, [*ROWS, ROWS[0] | {"id": "late"}])
    (late,) = older()
    assert (late.day, late.causes, late.units) == (DAY, ["logs changed"], 1 + 2 * 2 + 1)
    kept.write_suite(timezone="Asia/Tokyo")
    assert older()[0].causes == ["logs changed", "time zone"]


def test_what_the_inventory_did_not_look_at_is_said(kept: Project) -> None:
    def said() -> tuple[bool, str]:
        suite = kept.suite
        (check,) = [c for c in inventory_checks(suite) if OLDER in {k.name for k in c.check_keys}]
        result = check(dg.build_asset_check_context(instance=kept.instance))
        assert isinstance(result, dg.AssetCheckResult)
        return bool(result.passed), str(result.description)

    fresh = "every older day that was ingested is as it would be made now."
    assert said() == (True, fresh)
    source = {
        "name": "shop",
        "format": "jsonl",
        "path": "logs/all.jsonl",
        "date_column": "start_time",
    }
    kept.write_suite(sources=[source], shards=1, automation={"look_back_days": 400})
    write_day(kept, ROWS, "all")
    follow_judging(kept)
    follow(kept, tick(kept, "stale_partitions"))
    kept.write_suite(automation={"look_back_days": 1})
    write_day(kept, [*ROWS, ROWS[0] | {"id": "late"}], "all")
    assert said() == (
        True,
        f"{fresh} Logs of shop were not compared: a file of theirs holds many days.",
    )
    (kept.folder / "logs").rename(kept.folder / "away")
    (kept.folder / "logs").write_text("no folder")
    kept.write_suite(sources=[source | {"path": "logs/*.jsonl"}])
    passed, description = said()
    assert not passed
    assert "could not be looked at: " in description


@pytest.mark.parametrize("noted", [True, False], ids=["noted", "left to nobody"])
def test_the_run_of_a_process_that_was_killed_does_not_block_its_partition(
    kept: Project, noted: bool
) -> None:
    """Also where its parent takes no note of the end, as the first process of many containers does not."""
    follow(kept, tick(kept, "rubric_releases"))
    with subprocess.Popen(["sleep", "60"]) as process:
        mine = process_tags()["gavel/process"].split()
        tags = {
            "dagster/partition": DAY,
            "gavel/process": f"{mine[0]} {process.pid} {_started(process.pid)}",
        }
        started = dg.DagsterRun(
            job_name="ingest_day", status=dg.DagsterRunStatus.STARTED, tags=tags
        )
        kept.instance.add_run(started)
        assert asked(tick(kept, "log_arrivals")) == [], "its process is alive"
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | (0 if noted else os.WNOWAIT))
        assert asked(tick(kept, "log_arrivals")) == [("ingest_day", DAY)]
    ended = kept.instance.get_run_by_id(started.run_id)
    assert ended is not None
    assert ended.status is dg.DagsterRunStatus.FAILURE


def test_a_run_killed_before_its_first_step_does_not_block_its_partition_for_ever(
    kept: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = {"dagster/partition": DAY}
    run = dg.DagsterRun(job_name="ingest_day", status=dg.DagsterRunStatus.STARTING, tags=partition)
    kept.instance.add_run(run)
    kept.instance.handle_new_event(_started_event(run))
    assert asked(tick(kept, "log_arrivals")) == [], "its first step may be about to begin"
    monkeypatch.setattr(processes, "_FIRST_STEP", -1.0)
    assert asked(tick(kept, "log_arrivals")) == [("ingest_day", DAY)]


def _started_event(run: dg.DagsterRun) -> dg.EventLogEntry:
    event = dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, run.job_name)
    return dg.EventLogEntry(
        None, 10, "", run.run_id, dt.datetime.now(dt.UTC).timestamp(), dagster_event=event
    )


def test_unresolved_records_get_one_more_round_once_the_evaluator_answers(kept: Project) -> None:
    def hopeless(ask: Ask) -> Reply:
        return Reply("no idea") if "number 3?" in str(ask.body) else valid(ask)

    with Endpoint(hopeless) as endpoint:
        judge = {"backend": "openai_compatible", "base_url": endpoint.url, "model": "judge-7b"}
        kept.write_suite(evaluators={"judge": judge | {"retries": 0}}, regeneration_attempts=1)
        follow_judging(kept)
        endpoint.models = lambda: Reply(status=500)
        down = tick(kept, "unresolved_records")
        assert asked(down) == []
        assert "HTTP 500 to a probe" in str(down.skip_reason)
        endpoint.models = lambda: Reply(body={"object": "list", "data": []})
        again = tick(kept, "unresolved_records")
        (request,) = again.run_requests or []
        assert request.job_name == "regenerate_chat_shard"
        before = endpoint.total
        follow(kept, again)
        assert endpoint.total == before + 1, "one attempt, of that record alone"
        assert "number 3?" in str(endpoint.bodies[-1])
        assert asked(tick(kept, "unresolved_records")) == [], "its round is spent"


def test_a_round_that_fails_is_tried_again_and_no_probe_is_sent_for_nothing(kept: Project) -> None:
    refusing = False
    write_day(kept, [row(number) for number in range(24)])

    def hopeless(ask: Ask) -> Reply:
        return Reply(status=500) if refusing else Reply("no idea")

    with Endpoint(hopeless) as endpoint:
        judge = {"backend": "openai_compatible", "base_url": endpoint.url, "model": "judge-7b"}
        kept.write_suite(
            evaluators={"judge": judge | {"retries": 0}},
            shards=1,
            regeneration_attempts=1,
            automation={"attempts": 3, "backoff": 0},
        )
        follow_judging(kept)
        (first,) = tick(kept, "unresolved_records").run_requests or []
        refusing = True
        run(kept, first)
        before = endpoint.total
        quiet = tick(kept, "unresolved_records")
        assert asked(quiet) == []
        assert endpoint.total == before, "nothing would be asked for"
        second = tick(kept, "failed_partitions")
        assert asked(second) == [("regenerate_chat_shard", first.partition_key)]
        (request,) = second.run_requests or []
        assert (request.tags["gavel/round"], request.tags["gavel/attempt"]) == ("1", "2")
        assert "1 told" in str(tick(kept, "alerts").skip_reason), "the evaluator is down"
        run(kept, request)
        kept.write_suite(automation={"attempts": 2, "backoff": 0})
        spent = f"given up: regenerate chat {DAY} 0"
        assert spent in str(tick(kept, "failed_partitions").skip_reason)
        key = dg.AssetCheckKey(dg.AssetKey(["chat", "regenerated"]), LEFT_FAILED)
        (check,) = (c for c in inventory_checks(kept.suite) if key in c.check_keys)
        stated = check(dg.build_asset_check_context(instance=kept.instance))
        assert isinstance(stated, dg.AssetCheckResult)
        assert "1 left failed: regenerate chat" in str(stated.description)
        kept.write_suite(automation={"attempts": 3, "backoff": 0})
        refusing = False
        follow(kept, tick(kept, "failed_partitions"))
        for name in ("unresolved_records", "failed_partitions"):
            assert asked(tick(kept, name)) == []
        assert "0 told, 0 open" in str(tick(kept, "alerts").skip_reason)


def test_an_evaluator_that_is_down_is_not_probed_at_every_tick(kept: Project) -> None:
    def hopeless(ask: Ask) -> Reply:
        return Reply("no idea") if "number 3?" in str(ask.body) else valid(ask)

    with Endpoint(hopeless) as endpoint:
        judge = {"backend": "openai_compatible", "base_url": endpoint.url, "model": "judge-7b"}
        kept.write_suite(evaluators={"judge": judge | {"retries": 0}}, regeneration_attempts=1)
        follow_judging(kept)
        probes = []

        def models() -> Reply:
            probes.append(len(probes))
            return Reply(status=500)

        endpoint.models = models
        down = tick(kept, "unresolved_records")
        assert len(probes) == 1
        again = tick(kept, "unresolved_records", cursor=down.cursor)
        assert len(probes) == 1
        assert "judge is probed again at" in str(again.skip_reason)
        assert again.cursor == down.cursor
        failed, last = json.loads(str(down.cursor))["judge"]
        over = json.dumps({"judge": [failed, last - 61]})
        down = tick(kept, "unresolved_records", cursor=over)
        assert len(probes) == 2
        assert json.loads(str(down.cursor))["judge"][0] == failed + 1
        endpoint.models = lambda: Reply(body={"object": "list", "data": []})
        assert len(asked(tick(kept, "unresolved_records", cursor="[not json"))) == 1


def test_a_changed_rule_of_escalation_makes_the_task_stale_and_then_the_day(
    kept: Project,
) -> None:
    def tiers(**escalation: object) -> None:
        kept.write_suite(
            evaluators={"judge": {"backend": "heuristic"}, "large": {"backend": "heuristic"}},
            tasks={"chat": {"escalation": {"evaluator": "large", **escalation}}},
        )

    tiers()
    kept.evaluate(DAY)
    assert asked(tick(kept, "stale_partitions")) == []
    tiers(audit_share=0.5)
    shards = tick(kept, "stale_partitions")
    assert asked(shards) == [("judge_chat_shard", f"{DAY}|{shard}") for shard in ("0", "1")]
    assert {r.tags["gavel/cause"] for r in shards.run_requests or []} == {"others"}
    follow(kept, shards)
    day = tick(kept, "stale_partitions")
    assert asked(day) == [("publish_day", DAY)]
    follow(kept, day)
    assert asked(tick(kept, "stale_partitions")) == []
    # Without the tiers, the last table of judging is another one.
    kept.write_suite(tasks={})
    assert asked(tick(kept, "stale_partitions")) == [("publish_day", DAY)]
