"""Invalid verdicts are asked again, told what was wrong, at little cost; every attempt is kept."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from tests.endpoint import Ask, Endpoint, Reply

from .judging import GOOD, Bench, answer, judge_at, row_id


def conversation(ask: Ask) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in ask.body["messages"]]


def test_the_repair_shows_the_previous_answer_and_what_was_wrong_with_it(bench: Bench) -> None:
    bad = {2: answer(clarity=9), 4: answer(topic="paint")}
    seen: list[list[tuple[str, str]]] = []

    def behave(ask: Ask) -> Reply:
        seen.append(conversation(ask))
        if ask.record != "record 1":
            return Reply(answer())
        return Reply(bad.get(len(ask.body["messages"]), answer()) if len(seen) < 5 else answer())

    with Endpoint(behave) as endpoint:
        judge = judge_at(endpoint.url)
        bench.judge(judge, 3)
        again = bench.regenerate(judge, 3)
    system, first = ("system", "Judge."), ("user", "record 1")
    told = "Wrong: [out_of_range: clarity: 9 is not within 1 to 5]"
    assert seen[3] == [system, first, ("assistant", bad[2]), ("user", told)]
    told = "Wrong: [label_mismatch: subtopic saw belongs under topic tools, not paint]"
    assert seen[4] == [system, first, ("assistant", bad[4]), ("user", told)]
    assert [(row["row_id"], row["attempt"], row["status"], row["faults"]) for row in again] == [
        (row_id(1), 2, "invalid", ["label_mismatch"]),
        (row_id(1), 3, "valid", []),
    ]
    assert len(bench.answers()) == 5


def test_max_tokens_doubles_with_each_attempt_after_a_cut_answer(bench: Bench) -> None:
    room: dict[str, list[int]] = defaultdict(list)

    def behave(ask: Ask) -> Reply:
        room[ask.record].append(ask.body["max_tokens"])
        fits = ask.record != "record 0" or ask.body["max_tokens"] >= 800
        assert len(ask.body["messages"]) == 2, "half an answer is not shown again"
        return Reply(answer()) if fits else Reply('{"hel', finish_reason="length")

    with Endpoint(behave) as endpoint:
        judge = judge_at(endpoint.url, max_tokens=100)
        bench.judge(judge, 2)
        again = bench.regenerate(judge, 3)
    assert room == {"record 0": [100, 200, 400, 800], "record 1": [100]}
    assert [row["faults"] for row in again] == [["truncated"], ["truncated"], []]


def test_a_regeneration_run_twice_asks_nothing_and_says_the_same(bench: Bench) -> None:
    def behave(ask: Ask) -> Reply:
        return Reply(answer() if "4" not in ask.record else "no JSON")

    with Endpoint(behave) as endpoint:
        judge = judge_at(endpoint.url)
        bench.judge(judge, 50)
        first = bench.regenerate(judge, 3)
        total = endpoint.total
        bench.judge(judge, 50)
        second = bench.regenerate(judge, 3)
    assert endpoint.total == total == 50 + 3 * 14
    volatile = {"run_id", "reused", "worker", "evaluated_at", "latency_ms"}
    assert [strip(row, volatile) for row in first] == [strip(row, volatile) for row in second]
    assert all(row["faults"] == ["not_json"] for row in first)


def strip(row: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


def test_a_bad_day_is_complete_after_regeneration_at_little_cost(bench: Bench) -> None:
    """5 % malformed, 2 % out of range, 2 % HTTP 429, 1 % 500, 1 % truncated, independent at each ask."""
    records, ends = 3_000, defaultdict[str, list[str]](list)

    def behave(ask: Ask) -> Reply:
        share = ask.share
        for upto, name, reply in (
            (0.05, "bad", Reply(answer()[:-9])),
            (0.07, "bad", Reply(answer(clarity=11))),
            (0.09, "retried", Reply(status=429, body="slow down", headers={"Retry-After": "0"})),
            (0.10, "retried", Reply(status=500, body="oops")),
            (0.11, "bad", Reply(answer()[:20], finish_reason="length")),
            (1.00, "good", Reply(answer())),
        ):
            if share < upto:
                ends[ask.record].append(name)
                return reply
        raise AssertionError

    with Endpoint(behave) as endpoint:
        judge = judge_at(endpoint.url, max_concurrency=64)
        bench.judge(judge, records)
        again = bench.regenerate(judge, 3)
    assert endpoint.total <= 1.15 * records
    assert endpoint.total == sum(len(tries) for tries in ends.values())
    assert endpoint.answered.total() == len(bench.answers()), (
        "no reply was lost, none was kept twice"
    )

    last = {row["row_id"]: row for row in [*bench.rows(), *again]}
    assert last.keys() == {row_id(n) for n in range(records)}
    answered = {
        row_id(n): [end for end in ends[f"record {n}"] if end != "retried"] for n in range(records)
    }
    for key, row in last.items():
        assert (row["status"] == "valid") == (answered[key][-1] == "good")
        assert row["attempt"] == len(answered[key])
        assert row["status"] == "valid" or row["attempt"] == 4
        assert row["status"] == "invalid" or {name: row[name] for name in GOOD} == GOOD
    assert Counter(row["status"] for row in last.values())["invalid"] <= 3


def test_what_failed_on_its_way_is_asked_again_when_the_endpoint_has_healed(bench: Bench) -> None:
    """Its attempts were spent on an endpoint that hung on it; the record itself was never judged."""

    def hang(ask: Ask) -> Reply:
        return Reply(status=500) if ask.record == "record 3" else Reply(answer())

    with Endpoint(hang) as endpoint:
        judge = judge_at(endpoint.url, retries=0)
        bench.judge(judge, 30)
        assert [row["faults"] for row in bench.regenerate(judge, 2)] == [["transport"]] * 2
        before = endpoint.total
        endpoint.behave = lambda ask: Reply(answer())
        again = bench.regenerate(judge, 2)
    assert [(row["row_id"], row["attempt"], row["status"]) for row in again] == [
        (row_id(3), 2, "valid")
    ]
    assert endpoint.total == before + 1, "nothing else is asked"
