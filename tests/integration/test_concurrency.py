"""Many requests in flight, never more than allowed; each answer goes to the record it is about."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Iterator

import pytest

from gavel.inference.ask import Asked
from gavel.inference.ledger import Ledger
from gavel.inference.request import Answer, Decoding, Message, Question, Request
from gavel.judge.evaluate import judge_shard
from tests.endpoint import Ask, Endpoint, Reply

from .judging import Bench, answer, judge_at, write_shard


def number(ask: Ask) -> int:
    found = re.fullmatch(r"record (\d+)", ask.record)
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize("most", [1, 16, 40])
def test_concurrency_grows_to_what_is_allowed_and_not_above(bench: Bench, most: int) -> None:
    grown = threading.Event()

    def behave(ask: Ask) -> Reply:
        """From the second round on, answers are held back until more are in flight than at first."""
        if endpoint._in_flight >= min(most, 17):
            grown.set()
        return Reply(answer(), once=grown if endpoint.answered.total() >= 16 else None)

    with Endpoint(behave) as endpoint:
        judged = bench.judge(judge_at(endpoint.url, max_concurrency=most), most * 4)
    assert judged.valid == most * 4
    assert min(most, 17) <= endpoint.most_in_flight <= most


def test_a_server_that_slows_down_under_load_is_not_loaded_further(bench: Bench) -> None:
    """It works on 16 at once and lets the others wait, so that more in flight brings latency only."""

    def behave(ask: Ask) -> Reply:
        return Reply(answer(), delay=0.1 * max(1.0, endpoint._in_flight / 16))

    with Endpoint(behave) as endpoint:
        judged = bench.judge(judge_at(endpoint.url, max_concurrency=400), 400)
    assert judged.valid == 400
    assert endpoint.most_in_flight < 200


def test_answers_in_any_order_are_joined_to_their_records(bench: Bench) -> None:
    chance = random.Random(5)
    order: list[int] = []

    def behave(ask: Ask) -> Reply:
        n = number(ask)
        order.append(n)
        text = answer(helpfulness=1 + n % 5, confidence=n / 1000)
        return Reply("no" if n % 17 == 3 else text, delay=chance.uniform(0, 0.05))

    with Endpoint(behave) as endpoint:
        bench.judge(judge_at(endpoint.url, max_concurrency=100), 300)
    rows = bench.rows()
    assert len(rows) == 300
    for n, row in enumerate(rows):
        if n % 17 == 3:
            assert row["faults"] == ["not_json"]
        else:
            assert (row["helpfulness"], row["confidence"]) == (1 + n % 5, n / 1000)
    answers = [a["request_hash"] for a in sorted(bench.answers(), key=lambda a: a["answered_at"])]
    assert answers != [row["request_hash"] for row in rows], "the answers came in another order"


def test_an_error_of_ours_gives_up_what_is_in_flight_and_asks_for_no_more(bench: Bench) -> None:
    shard = write_shard(bench.folder / "shard.parquet", 200)

    def progress(asked: Asked, _: object) -> None:
        if asked.answered >= 40:
            raise RuntimeError("the progress bar broke")

    with Endpoint(lambda ask: Reply(answer(), delay=0.005)) as endpoint:
        judge = judge_at(endpoint.url, max_concurrency=8)
        with (
            pytest.raises(RuntimeError, match="the progress bar broke"),
            Ledger.open(bench.ledger, "run", "0") as ledger,
        ):
            judge_shard(judge, shard, ledger, bench.verdicts, progress)
        total = endpoint.settled()
        assert 40 <= total <= 40 + 3 * 8
        kept = {answer["request_hash"] for answer in bench.answers()}
        assert len(kept) >= 40
        judged = bench.judge(judge, 200, "second")
        assert endpoint.total - total == 200 - len(kept)
    assert judged.valid == 200


def test_closing_the_stream_pulls_no_further_request() -> None:
    question = Question("m", Decoding(0.0, 10), "Judge.")
    pulled = 0

    def requests() -> Iterator[Request]:
        nonlocal pulled
        for n in range(1000):
            pulled += 1
            yield question.request((Message("user", f"record {n}"),), 1)

    with Endpoint(lambda ask: Reply("x", delay=0.005)) as endpoint:
        stream = judge_at(endpoint.url, max_concurrency=8).backend.answers(requests())
        batch: list[Answer] = next(stream)
        before = pulled
        stream.close()
    assert batch
    assert pulled == before
    assert endpoint.total <= pulled


def test_an_error_in_making_requests_comes_through_after_the_answers_before_it(
    bench: Bench,
) -> None:
    question = Question("m", Decoding(0.0, 10), "Judge.")

    def requests() -> Iterator[Request]:
        for n in range(20):
            yield question.request((Message("user", f"record {n}"),), 1)
        raise ValueError("record 20 cannot be rendered")

    with Endpoint(lambda ask: Reply("x")) as endpoint, pytest.raises(ValueError, match="record 20"):
        for _ in judge_at(endpoint.url, max_concurrency=4).backend.answers(requests()):
            pass
