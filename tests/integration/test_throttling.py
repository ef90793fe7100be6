"""A server that asks for less gets less, and no record pays for it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from gavel.errors import EvaluatorOutage
from tests.endpoint import Ask, Endpoint, Reply

from .judging import Bench, answer, judge_at


def http_date(seconds: float) -> str:
    """The date in so many seconds, as HTTP writes it: to the whole second, rounded down."""
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("header", "least", "most"),
    [
        (lambda: "0.4", 0.4, 0.4),
        (lambda: http_date(2), 0.9, 2.0),
        (lambda: http_date(-3600), 0.0, 0.01),
        (lambda: "later", 0.0, 0.01),
        (lambda: "-5", 0.0, 0.01),
    ],
    ids=["seconds", "date", "past", "nonsense", "negative"],
)
def test_retry_after_is_honoured(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    header: Callable[[], str],
    least: float,
    most: float,
) -> None:
    came: list[float] = []
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        if seconds:
            pauses.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr(asyncio, "sleep", noted)

    def behave(ask: Ask) -> Reply:
        came.append(time.monotonic())
        if len(came) > 1:
            return Reply(answer())
        return Reply(status=status, body="slow down", headers={"Retry-After": header()})

    with Endpoint(behave) as endpoint:
        started = time.monotonic()
        bench.judge(judge_at(endpoint.url), 1)
        took = time.monotonic() - started
    (row,) = bench.rows()
    assert row["status"] == "valid"
    assert row["retries"] == [f"http_{status}"]
    (pause,) = pauses
    assert came[1] - came[0] >= least
    assert pause <= most
    assert row["latency_ms"] / 1000 <= took - pause, "it is that of the last try, without the wait"


@pytest.mark.parametrize("status", [429, 503])
def test_a_storm_loses_no_record_and_shrinks_concurrency(bench: Bench, status: int) -> None:
    """The server bears 4 at once and throttles all above: the client has to come down from 16 and more."""
    state = {"throttled": 0, "served": 0}
    late: list[int] = []
    together = threading.Event()

    def behave(ask: Ask) -> Reply:
        busy = endpoint._in_flight > 4
        if endpoint._in_flight >= 16:
            together.set()
        state["throttled" if busy else "served"] += 1
        if state["served"] > 100:
            late.append(endpoint._in_flight)
        # The first alone finds out what the server takes; those after it come together.
        once = together if endpoint.total > 1 else None
        return replace(
            Reply(status=status, body="busy") if busy else Reply(answer()), delay=0.01, once=once
        )

    with Endpoint(behave) as endpoint:
        judged = bench.judge(judge_at(endpoint.url, max_concurrency=64), 200)
    assert judged.valid == 200
    assert judged.asked.retries == state["throttled"] > 0
    assert max(endpoint.answered.values()) == 1
    assert endpoint.most_in_flight >= 16
    assert sum(late) / len(late) < 8, "what is in flight came down to about what the server bears"


def test_every_try_throttled_for_long_is_an_outage(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gavel.inference.dispatch._STARVED", 0.3)
    monkeypatch.setattr("gavel.inference.dispatch._LONGEST_BACKOFF", 0.05)
    busy = Reply(status=429, body={"error": {"message": "Rate limit reached"}})
    with Endpoint(lambda ask: busy) as endpoint, pytest.raises(EvaluatorOutage) as raised:
        bench.judge(judge_at(endpoint.url, timeout=0.3), 40)
    assert endpoint.url in str(raised.value)
    assert "throttles every request" in str(raised.value)
    assert "Rate limit reached" in str(raised.value)
    assert bench.answers() == []


def test_a_slow_server_that_is_busy_with_what_it_accepted_is_no_outage(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gavel.inference.dispatch._STARVED", 0.3)
    monkeypatch.setattr("gavel.inference.dispatch._LONGEST_BACKOFF", 0.3)

    def behave(ask: Ask) -> Reply:
        busy = endpoint._in_flight > 4
        return Reply(status=429, body="busy") if busy else Reply(answer(), delay=1.0)

    with Endpoint(behave) as endpoint:
        judged = bench.judge(judge_at(endpoint.url, timeout=30, retries=10), 12)
    assert judged.valid == 12


def test_a_retry_after_of_hours_is_an_outage_at_once(bench: Bench) -> None:
    busy = Reply(status=429, body="quota", headers={"Retry-After": "7200"})
    with Endpoint(lambda ask: busy) as endpoint, pytest.raises(EvaluatorOutage, match="7200 s"):
        bench.judge(judge_at(endpoint.url), 40)
