"""The decisions of the sensors, as tables."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from gavel.store.manifests import Manifest
from sensors.decisions import (
    BUDGET,
    Failed,
    Probes,
    Request,
    admitted,
    causes_of,
    delay,
    latest_failures,
    look_back,
    retries,
    settled,
    stale,
)
from sensors.units import Unit, day_of_run, unit_of

SHARD = Unit("judge", "2026-11-02", "chat", "0")
MADE = {"rows": "a", "rubric": "chat 3 f00", "evaluator": "judge c0", "shards": "4", "code": "1"}


@pytest.mark.parametrize(
    ("made", "change", "causes"),
    [
        (MADE, {}, ()),
        (None, {}, ("never made",)),
        (MADE, {"rows": "b"}, ("new rows",)),
        (MADE, {"rubric": "chat 4 ba2"}, ("rubric chat 3 -> 4",)),
        (MADE, {"evaluator": "judge c1"}, ("evaluator",)),
        (MADE, {"code": "2"}, ("code",)),
        (MADE, {"shards": "2"}, ("shards 4 -> 2",)),
        (MADE, {"rows": "b", "code": "2"}, ("code", "new rows")),
        ({}, {}, ("code", "evaluator", "new rows", "rubric", "shards")),
    ],
)
def test_a_stale_unit_is_told_with_its_causes(
    made: dict[str, str] | None, change: dict[str, str], causes: tuple[str, ...]
) -> None:
    assert set(causes_of(made, MADE | change)) == set(causes)


def test_a_fresh_unit_is_not_asked_for() -> None:
    assert stale(SHARD, Manifest(MADE, "run"), MADE) is None


def test_a_run_key_changes_with_what_is_wanted_what_it_replaces_and_the_attempt() -> None:
    first, other = MADE, MADE | {"rows": "b"}
    keys = [
        stale(SHARD, None, first),
        stale(SHARD, None, other),
        stale(SHARD, Manifest(other, "run 1"), first),
        stale(SHARD, Manifest(other, "run 2"), first),
        Request(SHARD, (), "s", attempt=2),
        Request(SHARD, (), "s", attempt=3),
    ]
    assert len({key.run_key for key in keys if key is not None}) == 6
    again = stale(SHARD, None, first)
    assert again is not None
    assert keys[0] is not None
    assert again.run_key == keys[0].run_key, "the same state of the world asks once"


def test_what_a_run_is_at_work_on_is_not_asked_for() -> None:
    units = [Unit("judge", f"2026-11-0{day}", "chat", s) for day in (3, 2, 1) for s in "01"]
    requests = [Request(unit, (), "s") for unit in units]
    asked = admitted(requests, {units[0]}, {"2026-11-02"})
    assert [r.unit for r in asked] == [units[1], units[4], units[5]]


@pytest.mark.parametrize(
    ("causes", "moving", "waits"),
    [
        (("earlier days",), [], False),
        (("earlier days",), ["2026-11-03"], True),
        (("earlier days",), ["2026-11-01"], True),
        (("earlier days",), ["2026-10-31"], False),
        (("earlier days",), ["2026-11-04", "2026-11-05"], False),
        (("earlier days", "new rows"), ["2026-11-03"], False),
        (("never made",), ["2026-11-03"], False),
    ],
)
def test_a_day_whose_earlier_days_alone_changed_waits_until_they_have_settled(
    causes: tuple[str, ...], moving: list[str], waits: bool
) -> None:
    request = Request(Unit("publish", "2026-11-04"), causes, "s")
    assert settled([request], moving, window=3) == ([] if waits else [request])


def failed(
    attempt: int = 1, kind: str | None = None, signature: str = "s", ended: float = 1000
) -> Failed:
    return Failed(SHARD, "run-id", attempt, signature, ended, kind)


@pytest.mark.parametrize(
    ("newest_first", "left"),
    [
        ([failed()], [failed()]),
        ([None, failed()], []),
        ([failed(2), failed(1), None, failed(5)], [failed(2)]),
        ([failed(1, signature="t"), failed(4)], [failed(1, signature="t")]),
        # By hand: one more try of what was asked for, whatever it failed with.
        ([failed(signature="", ended=2000), failed(2)], [failed(3, ended=2000)]),
        ([failed(1, "SuiteError", "", 3000), failed(1, None, ""), failed(2, "check:a")],
         [failed(4, "check:a", ended=3000)]),
        ([failed(3), failed(signature=""), failed(2)], [failed(3)]),
        ([failed(signature=""), None, failed(2)], [failed(signature="")]),
        ([None, failed(signature=""), failed(2)], []),
        ([failed(1, BUDGET, "", 2000), failed(2)], [failed(2)]),
        # An older run executed again from the UI, with its tags.
        ([failed(1, ended=3000), failed(3), failed(2), failed(1)], [failed(3, ended=3000)]),
    ],
)  # fmt: skip
def test_a_run_by_hand_is_one_more_try_and_takes_nothing_off_the_list(
    newest_first: list[Failed | None], left: list[Failed]
) -> None:
    assert latest_failures((SHARD, failure) for failure in newest_first) == left


@pytest.mark.parametrize(
    ("failure", "now", "outcome"),
    [
        (failed(), 1059, "waits"),
        (failed(), 1091, "again"),
        (failed(attempt=2), 1119, "waits"),
        (failed(attempt=2), 1181, "again"),
        (failed(attempt=4), 1479, "waits"),
        (failed(attempt=4), 1721, "again"),
        (failed(attempt=5), 9999, "given up"),
        (failed(kind="EvaluatorOutage"), 1091, "again"),
        (failed(kind="EvaluatorRefused"), 9999, "given up"),
        (failed(kind="RubricError"), 9999, "given up"),
        (failed(kind="check:one_score_a_record"), 9999, "given up"),
        (failed(signature="older"), 9999, "not decided"),
        (failed(kind="BudgetSpent", attempt=9, ended=86_399 + 86_400), 2 * 86_400 - 1, "waits"),
        (failed(kind="BudgetSpent", attempt=9, ended=86_400), 2 * 86_400, "again"),
    ],
)
def test_a_failed_unit_is_retried_in_its_time_within_its_budget(
    failure: Failed, now: float, outcome: str
) -> None:
    wanted = {SHARD: Request(SHARD, ("new rows",), "s", "run 0")}
    decided = retries([failure], wanted, now, attempts=5, backoff=60)
    outcomes = {
        "again": bool(decided.now),
        "waits": bool(decided.waiting),
        "given up": bool(decided.given_up),
        "not decided": not (decided.now or decided.waiting or decided.given_up),
    }
    assert [name for name, holds in outcomes.items() if holds] == [outcome]
    for request in decided.now:
        assert request.attempt == failure.attempt + (failure.kind != "BudgetSpent")
        assert request.replaces == "run 0"


def test_a_budget_that_was_raised_is_not_waited_for() -> None:
    stopped, wanted = failed(kind=BUDGET), {SHARD: Request(SHARD, (), "s")}
    assert retries([stopped], wanted, 1001, attempts=3, backoff=60, spent=True).waiting
    assert retries([stopped], wanted, 1001, attempts=3, backoff=60, spent=False).now


def test_days_that_the_budget_stopped_spend_no_attempts_and_lengthen_no_wait() -> None:
    wanted = {SHARD: Request(SHARD, (), "s")}
    attempt, keys = 1, {wanted[SHARD].run_key}
    for day in range(1, 9):
        stopped = Failed(SHARD, f"run {day}", attempt, "s", day * 86_400.0, BUDGET)
        (again,) = retries([stopped], wanted, (day + 1) * 86_400.0, attempts=3, backoff=60).now
        attempt = again.attempt
        keys.add(again.run_key)
    assert attempt == 1
    assert len(keys) == 9, "each is asked for"
    down = failed(attempt, "EvaluatorOutage")
    assert retries([down], wanted, 1091, attempts=3, backoff=60).now


@pytest.mark.parametrize(
    ("failures", "seconds"), [(1, 60), (2, 120), (3, 240), (4, 240), (4000, 240)]
)
def test_an_evaluator_that_is_down_is_probed_less_and_less_often(
    failures: int, seconds: float
) -> None:
    assert Probes(failures, 1000).due(attempts=3, backoff=60) == 1000 + seconds


def test_a_unit_that_is_fresh_again_is_left_alone() -> None:
    decided = retries([failed()], {}, 9999, attempts=5, backoff=60)
    assert [*decided.now, *decided.waiting, *decided.given_up] == []


def test_the_delay_doubles_and_is_the_same_for_every_daemon() -> None:
    delays = [delay(failed(attempt=n), 60) for n in (1, 2, 3)]
    assert delays == [delay(failed(attempt=n), 60) for n in (1, 2, 3)]
    assert 60 <= delays[0] <= 90
    assert delays[1:] == [2 * delays[0], 4 * delays[0]]


@pytest.mark.parametrize(
    ("today", "first", "last", "days", "expected"),
    [
        ("2026-11-05", "2026-11-01", None, 2, ["2026-11-04", "2026-11-03"]),
        ("2026-11-03", "2026-11-01", None, 9, ["2026-11-02", "2026-11-01"]),
        ("2026-11-30", "2026-11-01", "2026-11-04", 2, ["2026-11-04", "2026-11-03"]),
        ("2026-11-01", "2026-11-01", None, 9, []),
        ("2026-10-01", "2026-11-01", None, 9, []),
    ],
)
def test_the_window_holds_complete_days_newest_first(
    today: str, first: str, last: str | None, days: int, expected: list[str]
) -> None:
    date = dt.date.fromisoformat
    found = look_back(date(today), date(first), None if last is None else date(last), days)
    assert found == expected


@pytest.mark.parametrize(
    ("job", "partition", "expected"),
    [
        ("ingest_day", "2026-11-02", Unit("ingest", "2026-11-02")),
        ("publish_day", "2026-11-02", Unit("publish", "2026-11-02")),
        ("judge_chat_shard", "2026-11-02|3", Unit("judge", "2026-11-02", "chat", "3")),
        (
            "regenerate_my_task_shard",
            "2026-11-02|3",
            Unit("regenerate", "2026-11-02", "my_task", "3"),
        ),
        ("release_rubrics", None, Unit("release")),
        ("evaluate_day", "2026-11-02", None),
        ("ingest_day", None, None),
        ("something", "2026-11-02", None),
    ],
)
def test_a_run_names_its_unit(job: str, partition: Any, expected: Unit | None) -> None:
    assert unit_of(job, partition) == expected
    if expected is not None:
        assert (expected.job, expected.partition) == (job, partition)


def test_a_run_over_a_day_names_the_day() -> None:
    assert day_of_run("evaluate_day", "2026-11-02") == "2026-11-02"
    assert day_of_run("__ASSET_JOB", "2026-11-02|1") == "2026-11-02"
    assert day_of_run("ingest_day", "2026-11-02") is None
