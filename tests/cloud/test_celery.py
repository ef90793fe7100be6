"""More than one worker: a broker and two workers of Celery on loopback, one of which is killed in the middle."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pyarrow.parquet as pq
import pytest
import yaml

from assets.processes import PROCESS_TAG
from tests.e2e.conftest import ROOT, Project, project
from tests.e2e.test_unattended import DAY_1, Unattended, rows
from tests.endpoint import Ask, Endpoint, Reply, valid
from tests.ports import free_port

from .servers import STARTING

__all__ = ["project"]

CHAT, SHARDS, IN_FLIGHT, GIVEN = 100, 4, 2, 8


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[str]:
    """The address of a Redis of its own."""
    if importlib.util.find_spec("dagster_celery") is None:
        pytest.skip("dagster-celery is not installed; it is the extra celery")
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("Redis is not installed: no redis-server on PATH")
    port = free_port()
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", tmp_path]
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL) as server:
        try:
            deadline = time.monotonic() + STARTING
            while True:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                assert server.poll() is None, "Redis ended"
                assert time.monotonic() < deadline, "Redis does not answer"
                time.sleep(0.05)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.kill()


@contextmanager
def worker(project: Project, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """A worker as deploy/ has it, the leader of a group of its own."""
    environment = {
        **os.environ,
        "DAGSTER_HOME": str(project.folder / ".dagster"),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "deploy" / "celery")]),
    }
    command = [sys.executable, "-m", "celery", "-A", "dagster_celery.app", "worker"]
    command += ["--concurrency", "1", "-Q", "dagster", "-n", f"{name}@%h", "-l", "warning"]
    with (
        (project.folder / f"{name}.log").open("wb") as log,
        subprocess.Popen(
            command, cwd=project.folder, env=environment, stdout=log, stderr=log,
            start_new_session=True,
        ) as process,
    ):  # fmt: skip
        try:
            yield process
        finally:
            kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a worker with the process that executes its run, as the loss of its machine would."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(20)


def configured(folder: Path) -> str:
    """dagster.yaml as deploy/ has it, with SQLite in the place of PostgreSQL."""
    settings = yaml.safe_load((ROOT / "deploy" / "celery" / "dagster.yaml").read_text())
    del settings["storage"]
    return yaml.safe_dump(settings)


def test_a_worker_killed_in_the_middle_loses_and_doubles_nothing(
    project: Project, broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAVEL_CELERY_BROKER", broker)
    folder = project.folder
    home = folder / ".dagster"
    home.mkdir()
    shutil.rmtree(folder / "prompts" / "translation")
    for name in ("definitions.py", "workspace.yaml"):
        shutil.copy(ROOT / name, folder / name)
    (home / "dagster.yaml").write_text(configured(folder), encoding="utf-8")

    killed = threading.Event()

    def held(ask: Ask) -> Reply:
        """Some answers to each of the two shards that ask at once, and no more before the kill."""
        return replace(valid(ask), once=killed if endpoint.total > GIVEN else None)

    with Endpoint(held) as endpoint, dg.DagsterInstance.from_config(str(home)) as instance:
        instance.event_log_storage.set_concurrency_slots("evaluator", SHARDS)
        judge = {"backend": "openai_compatible", "base_url": endpoint.url, "model": "judge-7b"}
        project.write_suite(
            first_day=DAY_1,
            last_day=None,
            shards=SHARDS,
            evaluators={"judge": {**judge, "max_concurrency": IN_FLIGHT}},
            automation={"look_back_days": 2, "interval": 1, "backoff": 1, "attempts": 6},
        )
        unattended = Unattended(project, endpoint)
        try:
            with worker(project, "first") as first, worker(project, "second"):
                unattended.start()
                unattended.write(DAY_1, rows(DAY_1, chat=CHAT, translation=0))
                unattended.wait("two shards at once", lambda: endpoint.most_in_flight > IN_FLIGHT)
                assert judged_by(instance, first), "both workers are in the middle of a shard"
                kill(first)
                killed.set()
                unattended.wait(
                    "the day's publication", lambda: unattended.published(DAY_1) is not None
                )
                unattended.wait("the end of every run", unattended.quiet)
        finally:
            unattended.stop()

        assert len(endpoint.answered) == CHAT
        repeated = endpoint.total - CHAT - count_of_probes(endpoint)
        assert repeated <= IN_FLIGHT, "only what was in flight at the kill is asked again"
        assert "FAILURE" in {run.status.value for run in instance.get_runs()}
        by_process = {
            run.tags[PROCESS_TAG] for run in instance.get_runs() if PROCESS_TAG in run.tags
        }
        assert len(by_process) >= 2, "both workers executed runs"
    scores = pq.read_table(project.store.existing("chat/scores", DAY_1))
    assert scores.num_rows == len(set(scores["row_id"].to_pylist())) == CHAT
    assert set(scores["status"].to_pylist()) == {"valid"}


def judged_by(instance: dg.DagsterInstance, process: subprocess.Popen[bytes]) -> bool:
    """Whether a process of the group of `process` executes the run of a shard."""
    for run in instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])):
        match run.tags.get(PROCESS_TAG, "").split():
            case [_, number, _] if run.job_name.startswith("judge_"):
                with suppress(ProcessLookupError):
                    if os.getpgid(int(number)) == process.pid:
                        return True
    return False


def count_of_probes(endpoint: Endpoint) -> int:
    """How often it was asked whether it is there."""
    return sum("response_format" not in body for body in endpoint.bodies)
