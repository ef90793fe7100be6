"""A process killed with SIGKILL loses no answer it had, and the next run asks for none of them again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.endpoint import Ask, Endpoint, Reply

from .judging import Bench, answer, judge_at

RECORDS, MOST = 600, 32


def start(
    bench: Bench, endpoint: Endpoint, run_id: str, records: int = RECORDS
) -> subprocess.Popen[bytes]:
    script = Path(__file__).with_name("judging.py")
    command = [sys.executable, script, bench.folder, endpoint.url, str(records), run_id]
    return subprocess.Popen(command)


@pytest.mark.parametrize("after", [1, 300])
def test_a_run_killed_in_the_middle_is_finished_by_the_next(bench: Bench, after: int) -> None:
    killing = threading.Event()

    def behave(ask: Ask) -> Reply:
        """Answers flow, though never all of them before the kill, however late that comes."""
        once = killing if endpoint.total > after + 200 else None
        return Reply(answer(confidence=int(ask.record.split()[1]) / 1000), delay=0.01, once=once)

    with Endpoint(behave) as endpoint:
        killed = start(bench, endpoint, "killed")
        while endpoint.answered.total() < after:
            assert killed.poll() is None
            time.sleep(0.001)
        os.kill(killed.pid, signal.SIGKILL)
        killed.wait(10)
        time.sleep(0.05)  # what the server still has in hand is done by then
        before = Counter(endpoint.answered)
        killing.set()
        assert after <= before.total() < RECORDS
        assert not bench.verdicts.exists()

        judged = bench.judge(judge_at(endpoint.url, max_concurrency=MOST), RECORDS, "next")
        repeated = sum(endpoint.answered[key] > before[key] for key in before)
        assert endpoint.answered.keys() == endpoint.asks.keys()
        assert len(endpoint.answered) == RECORDS
        assert repeated <= MOST, "only what was in flight at the kill is asked again"
        assert judged.asked.known == before.total() - repeated
        assert judged.asked.sent == RECORDS - judged.asked.known
    rows = bench.rows()
    assert [row["confidence"] for row in rows] == [n / 1000 for n in range(RECORDS)]
    assert Counter(row["run_id"] for row in rows) == {
        name: count
        for name, count in {"killed": judged.asked.known, "next": judged.asked.sent}.items()
        if count
    }


def test_two_processes_on_one_scope_at_once_both_finish(bench: Bench) -> None:
    other = Bench(bench.folder / "other")
    other.folder.mkdir()
    other.ledger.symlink_to(bench.ledger, target_is_directory=True)
    bench.ledger.mkdir()
    with Endpoint(lambda ask: Reply(answer(), delay=0.01)) as endpoint:
        runs = [start(one, endpoint, run_id, 200) for one, run_id in ((bench, "a"), (other, "b"))]
        assert [run.wait(30) for run in runs] == [0, 0]
    assert len(bench.rows()) == len(other.rows()) == len(bench.answers()) == 200
    assert not list(bench.ledger.glob("*.tail"))
