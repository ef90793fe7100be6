"""How concurrency adapts and what counts as an outage, as tables of events and states."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from gavel.inference.dispatch import AdaptiveConcurrency, Breaker, Limits, dispatch
from gavel.inference.request import Answer, Decoding, Message, Question, Request


@pytest.mark.parametrize(
    ("maximum", "latencies", "allowed"),
    [
        (100, [], 16),
        (4, [], 4),
        (1, [0.1] * 9, 1),
        (100, [0.1] * 4, 20),
        (100, [0.1] * 16, 32),
        (100, [0.1] * 500, 100),
        # a rise from milliseconds that a person would not notice is no strain
        (100, [0.001] * 4 + [0.2] * 4, 24),
        # the mean lags behind a first slow answer; then growth ends
        (100, [0.1] * 4 + [5.0] * 50, 20),
        (100, [2.0] * 4 + [5.0] * 50, 70),
    ],
)
def test_concurrency_doubles_each_round_while_latency_holds(
    maximum: int, latencies: list[float], allowed: float
) -> None:
    concurrency = AdaptiveConcurrency(maximum)
    for latency in latencies:
        concurrency.succeeded(latency)
    assert concurrency.allowed == pytest.approx(allowed, abs=0.5)


@pytest.mark.parametrize(
    ("start", "throttled_at", "allowed"),
    [
        (100, [0.0], 80),
        (100, [0.0, 0.01, 0.04], 80),  # one burst is one sign
        (100, [0.0, 0.1], 64),
        (100, [n / 10 for n in range(100)], 1),
        (1, [0.0, 1.0], 1),
    ],
)
def test_concurrency_shrinks_once_a_round_trip_and_never_below_one(
    start: int, throttled_at: list[float], allowed: float
) -> None:
    concurrency = AdaptiveConcurrency(100, start)
    for now in throttled_at:
        concurrency.throttled(now)
    assert concurrency.allowed == pytest.approx(allowed)


def test_a_burst_within_one_slow_round_trip_shrinks_once() -> None:
    concurrency = AdaptiveConcurrency(100, 50)
    concurrency.succeeded(2.0)
    for now in (0.0, 0.5, 1.0, 1.9):
        concurrency.throttled(now)
    assert concurrency.allowed == pytest.approx(51 * 0.8)


def test_after_a_throttle_concurrency_grows_by_one_a_round() -> None:
    concurrency = AdaptiveConcurrency(100, 50)
    concurrency.throttled(0.0)
    for _ in range(40):
        concurrency.succeeded(0.1)
    assert concurrency.allowed == pytest.approx(41, abs=0.1)


def test_one_lucky_answer_does_not_end_growth_for_good() -> None:
    concurrency = AdaptiveConcurrency(1000, 16)
    concurrency.succeeded(0.1)
    for _ in range(5000):
        concurrency.succeeded(2.0)
    assert concurrency.allowed > 30


@pytest.mark.parametrize(
    ("window", "share", "tries", "is_open"),
    [
        (50, 0.5, "", False),
        (50, 0.5, "x" * 19, False),  # too few to judge
        (50, 0.5, "x" * 20, True),
        (50, 0.5, "x." * 25, False),  # half is not beyond half
        (50, 0.5, "x." * 25 + "x", False),  # the oldest failure left the window
        (50, 0.5, "x." * 25 + "xx", True),
        (50, 0.5, "x" * 10 + "." * 10, False),
        (50, 0.5, "x" * 11 + "." * 9, True),
        (50, 0.5, "." * 1000 + "x" * 25, False),
        (50, 0.5, "." * 1000 + "x" * 26, True),
        (50, 0.5, "x" * 50 + "." * 25, False),  # recovered
        (10, 0.5, "x" * 9, False),
        (10, 0.5, "x" * 10, True),
        (1, 0.5, "x", True),
        (20, 1.0, "x" * 100, False),  # a share of 1 can never be exceeded
    ],
)
def test_the_breaker_opens_when_too_large_a_share_of_the_window_fails(
    window: int, share: float, tries: str, is_open: bool
) -> None:
    breaker = Breaker(window, share)
    for outcome in tries:
        breaker.record(failed=outcome == "x")
    assert breaker.open is is_open


def test_the_breaker_says_what_it_counted() -> None:
    breaker = Breaker(50, 0.5)
    for n in range(60):
        breaker.record(failed=n >= 20)
    assert str(breaker) == "40 of the last 50 tries failed"


@pytest.mark.parametrize("most", [1, 2, 8, 16])
def test_no_more_answers_than_may_be_in_flight_are_ever_unkept(most: int) -> None:
    """Whoever is killed at any moment loses what was asked and is not kept: `most` answers at most."""
    question = Question("m", Decoding(0.0, 1), "s")
    requests = [question.request((Message("user", str(n)),), 1) for n in range(400)]
    kept, unkept = 0, []

    async def send(request: Request) -> Answer:
        unkept.append(next(started) - kept)
        for _ in range(int(request.messages[0].content) % 3):
            await asyncio.sleep(0)
        return Answer(*request.key)

    async def nothing() -> None:
        pass

    started = itertools.count(1)
    limits = Limits(most, retries=0, breaker_window=20, breaker_share=0.5, timeout=60)
    for batch in dispatch(requests, send, nothing, nothing, limits, "nowhere"):
        kept += len(batch)
    assert kept == len(requests)
    assert max(unkept) == most
