"""`gavel-evaluate` as a person meets it: a process that is told off, interrupted, killed and run again."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest
import yaml

from tests.e2e.conftest import ROOT
from tests.endpoint import Ask, Endpoint, Reply, valid

DAYS = ("2026-11-02", "2026-11-03", "2026-11-04")
RECORDS = 12


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint(valid) as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path, endpoint: Endpoint) -> Path:
    """A suite of three days, the second of which has no logs."""
    shutil.copytree(ROOT / "prompts" / "chat", tmp_path / "prompts" / "chat")
    (tmp_path / "logs").mkdir()
    for day in (DAYS[0], DAYS[2]):
        lines = [
            json.dumps(
                {
                    "id": f"{day} {n}",
                    "user_id": "u",
                    "conversation_id": f"c{n // 3}",
                    "start_time": f"{day}T10:00:00Z",
                    "prompt": f"How much paint for wall {n} on {day}?",
                    "response": f"About {n} litres.",
                }
            )
            for n in range(RECORDS)
        ]
        (tmp_path / "logs" / f"{day}.jsonl").write_text("\n".join(lines))
    judge = {"backend": "openai_compatible", "base_url": endpoint.url, "model": "judge-7b"}
    suite = {
        "name": "command",
        "first_day": DAYS[0],
        "last_day": DAYS[2],
        "sources": [{"name": "web", "format": "jsonl", "path": "logs/{day}.jsonl", "task": "chat"}],
        "evaluator": "judge",
        "evaluators": {"judge": judge | {"max_concurrency": 2}},
        "shards": 1,
    }
    (tmp_path / "suite.yaml").write_text(yaml.safe_dump(suite))
    (tmp_path / "home").mkdir()
    shutil.copy(ROOT / "dagster.yaml", tmp_path / "home")
    return tmp_path


def start(folder: Path, *days: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-m", "evaluate", *days],
        cwd=folder,
        env={**os.environ, "DAGSTER_HOME": str(folder / "home"), "GAVEL_SUITE": "suite.yaml"},
        stdout=pipe,
        stderr=pipe,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    assert "Traceback" not in out + err
    return process.returncode, out, err


def statuses(folder: Path) -> list[str]:
    """The status of every run, the first one first."""
    with dg.DagsterInstance.from_config(str(folder / "home")) as instance:
        return [run.status.value for run in reversed(instance.get_runs())]


def sent(out: str) -> int:
    found = re.search(r"requests sent +([\d,]+)", out)
    assert found is not None, out
    return int(found[1].replace(",", ""))


def wait_for_answers(endpoint: Endpoint) -> None:
    """Wait until it has answered twice more."""
    enough = sum(endpoint.answered.values()) + 2
    deadline = time.monotonic() + 60
    while sum(endpoint.answered.values()) < enough:
        assert time.monotonic() < deadline, "the endpoint was not asked"
        time.sleep(0.02)


def test_a_day_without_logs_and_a_drifted_rubric_are_told_and_the_other_days_are_done(
    folder: Path,
) -> None:
    code, out, err = finish(start(folder))
    assert code == 1
    assert out.startswith(f"{DAYS[0]} ...")
    assert "command: 2026-11-02, 2026-11-04" in out
    assert sent(out) == 2 * RECORDS
    (told,) = err.splitlines()
    assert told.startswith("ingest_day, partition 2026-11-03: ")
    assert "there is no file" in told

    code, out, err = finish(start(folder, DAYS[0]))
    assert (code, err, sent(out)) == (0, "", 0)

    judge = folder / "prompts" / "chat" / "judge.j2"
    judge.write_text(judge.read_text().replace("strict, fair", "kind, fair"))
    code, out, err = finish(start(folder, DAYS[0]))
    assert (code, out) == (1, f"{DAYS[0]} . failed\n")
    assert (
        "release_rubrics: chat/rubric: version_names_content: version 1 of chat was released" in err
    )
    assert "raise `version` in rubric.yaml" in err


def test_what_is_interrupted_or_killed_goes_on_from_there(folder: Path, endpoint: Endpoint) -> None:
    def slowly(ask: Ask) -> Reply:
        return replace(valid(ask), delay=0.4)

    endpoint.behave = slowly
    interrupted = start(folder, DAYS[0])
    wait_for_answers(endpoint)
    interrupted.send_signal(signal.SIGINT)
    code, out, err = finish(interrupted)
    assert code == 130
    assert err.strip() == (
        "gavel-evaluate: interrupted; what was done is kept, and the same command goes on from there"
    )

    killed = start(folder, DAYS[0])
    wait_for_answers(endpoint)
    killed.kill()
    finish(killed)
    assert statuses(folder)[-1] == "STARTED"

    answered = sum(endpoint.answered.values())
    endpoint.behave = valid
    code, out, err = finish(start(folder, DAYS[0]))
    assert (code, err) == (0, "")
    assert sent(out) >= RECORDS - answered
    assert "STARTED" not in statuses(folder)
    assert max(endpoint.asks.values()) <= 3, "only what was under way is asked again"
