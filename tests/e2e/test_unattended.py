"""Gavel left alone: a real daemon and webserver, a real endpoint that goes down, and logs that keep coming."""

from __future__ import annotations

import contextlib
import datetime as dt
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets.dialogue import EVALUATE
from assets.processes import PROCESS_TAG
from gavel.store.files import alone
from sensors.state import State
from tests.e2e.conftest import ROOT, Project
from tests.e2e.test_daily import row
from tests.endpoint import Ask, Endpoint, Reply, valid
from tests.ports import free_port

TODAY = dt.datetime.now(dt.UTC).date()
DAY_1, DAY_2, OLD = ((TODAY - dt.timedelta(days=back)).isoformat() for back in (2, 1, 4))
CHAT, TRANSLATION = 12, 8
PATIENCE = 240.0


def rows(day: str, first: int = 0, chat: int = CHAT, translation: int = TRANSLATION) -> list[Any]:
    made = [
        row(first + n, "chat" if n < chat else "translation") for n in range(chat + translation)
    ]
    for record in made:
        record["id"] += day
        record["prompt"] += f" (asked on {day})"
        record["start_time"] = f"{day}{record['start_time'][10:]}"
    return made


class Unattended:
    """A project with `dagster dev` running over it."""

    def __init__(self, project: Project, endpoint: Endpoint) -> None:
        self.project, self.endpoint = project, endpoint
        self._port = free_port()
        self._graphql = f"http://127.0.0.1:{self._port}/graphql"

    def _run(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start one of Dagster's programs over the project, as the leader of a group of its own."""
        folder = self.project.folder
        environment = {
            **os.environ,
            "DAGSTER_HOME": str(folder / ".dagster"),
            "PYTHONPATH": str(ROOT),
            "GAVEL_PG_PASSWORD": "unused",
        }
        command = [str(Path(sys.executable).with_name(program)), *arguments]
        with (folder / "dev.log").open("ab") as log:
            return subprocess.Popen(
                [*command, "-w", "workspace.yaml"],
                cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def start(self) -> None:
        """Start `dagster dev`, and wait until it answers."""
        arguments = ("dev", "-h", "127.0.0.1", "-p", str(self._port))
        self._process = process = self._run("dagster", *arguments)
        self.wait("the webserver's start", lambda: process.poll() is not None or _up(self))
        assert process.poll() is None, (self.project.folder / "dev.log").read_text()[-2000:]

    @contextmanager
    def second_daemon(self) -> Iterator[None]:
        """Another daemon over the same instance, started by mistake."""
        daemon = self._run("dagster-daemon", "run")
        try:
            yield
            assert daemon.poll() is None, "it runs beside the first"
        finally:
            _kill(daemon)

    def kill(self) -> None:
        """Kill it with all its children, as a loss of power would."""
        _kill(self._process)

    def stop(self) -> None:
        """Ask it to stop; started where interrupts are ignored, it does not listen, and is killed."""
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self.kill()

    def write(self, day: str, records: list[Any]) -> None:
        """Put the day's log file in place, whole."""
        path = self.project.folder / "logs" / f"{day}.jsonl"
        unfinished = path.with_suffix(".part")
        unfinished.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
        unfinished.replace(path)

    def published(self, day: str) -> int | None:
        """How many records the published page of the day rests on, by its manifest."""
        report = self.project.store.document(f"report/{day}")
        return report.stat().st_mtime_ns if report.exists() else None

    def ask(self, query: str) -> Any:
        body = json.dumps({"query": query}).encode()
        request = urllib.request.Request(self._graphql, body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.load(reply)["data"]

    def runs(self) -> list[tuple[str, str, str]]:
        """(job, partition, status) of every run, newest first."""
        found = self.ask(
            "{runsOrError(limit: 500) {... on Runs {results {jobName status tags {key value}}}}}"
        )["runsOrError"]["results"]
        return [
            (
                run["jobName"],
                {t["key"]: t["value"] for t in run["tags"]}.get("dagster/partition", ""),
                run["status"],
            )
            for run in found
        ]

    def ticks(self) -> Counter[str]:
        """How often each sensor has ticked without a failure."""
        found = self.ask(
            '{sensorsOrError(repositorySelector: {repositoryName: "__repository__", '
            'repositoryLocationName: "gavel"}) {... on Sensors {results {name sensorState '
            "{ticks(limit: 500) {status}}}}}}"
        )["sensorsOrError"]["results"]
        return Counter(
            {
                s["name"]: sum(
                    t["status"] in ("SKIPPED", "SUCCESS") for t in s["sensorState"]["ticks"]
                )
                for s in found
            }
        )

    def wait(self, what: str, done: Callable[[], bool], every: float = 0.5) -> None:
        deadline = time.monotonic() + PATIENCE
        while not done():
            assert time.monotonic() < deadline, f"{what} did not happen; runs: {self.runs()[:30]}"
            time.sleep(every)

    def quiet(self) -> bool:
        """Whether every run has ended and nothing is left to be asked for."""
        project = self.project
        state = State(project.suite, project.store, dt.datetime.now(dt.UTC))
        return not any(state.stale_units()) and all(
            status in ("SUCCESS", "FAILURE") for _, _, status in self.runs()
        )


@pytest.fixture(params=["sqlite", "postgres"])
def storage(request: pytest.FixtureRequest) -> Iterator[str]:
    """What dagster.yaml says of the storage."""
    if request.param == "sqlite":
        yield ""
        return
    if importlib.util.find_spec("dagster_postgres") is None:
        pytest.skip("dagster-postgres is not installed; it is the extra `postgres`")
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: int(p.parent.name))
    if not programs:
        pytest.skip("PostgreSQL is not installed: no /usr/lib/postgresql/*/bin")
    if os.getuid() == 0 and shutil.which("runuser") is None:
        pytest.skip("PostgreSQL does not run as root, and there is no runuser to become another")
    with postgres(programs[-1]) as port:
        yield f"""
storage:
  postgres:
    postgres_db:
      scheme: postgresql+psycopg2
      hostname: 127.0.0.1
      port: {port}
      username: postgres
      password: {{env: GAVEL_PG_PASSWORD}}
      db_name: postgres
"""


@contextmanager
def postgres(programs: Path) -> Iterator[int]:
    """A PostgreSQL server of its own on loopback, with an empty database; yields its port."""
    user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
    # Not under tmp_path, whose parents only root may enter.
    with tempfile.TemporaryDirectory(prefix="gavel-pg-") as temporary:
        folder = Path(temporary)
        folder.chmod(0o777)
        data, log = folder / "data", folder / "log"

        def run(program: str, *arguments: str) -> None:
            done = subprocess.run(
                [*user, str(programs / program), "-D", str(data), *arguments],
                cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
            said = log.read_text() if log.exists() else ""
            assert done.returncode == 0, f"{program}: {done.stderr}{said}"

        run("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8")
        port = free_port()
        options = f"-h 127.0.0.1 -p {port} -k {folder} -c fsync=off"
        run("pg_ctl", "-w", "-l", str(log), "-o", options, "start")
        try:
            yield port
        finally:
            run("pg_ctl", "-w", "-m", "immediate", "stop")


def make_home(project: Project, storage: str = "") -> Path:
    """DAGSTER_HOME of `project`, set up as `make setup` does it."""
    home = project.folder / ".dagster"
    home.mkdir()
    for name in ("definitions.py", "workspace.yaml"):
        shutil.copy(ROOT / name, project.folder / name)
    written = (ROOT / "dagster.yaml").read_text(encoding="utf-8") + storage
    (home / "dagster.yaml").write_text(written, encoding="utf-8")
    return home


@pytest.fixture
def unattended(project: Project, storage: str) -> Iterator[Unattended]:
    make_home(project, storage)
    with Endpoint(valid) as endpoint:
        judge = {"backend": "openai_compatible", "base_url": endpoint.url, "model": "judge-7b"}
        project.write_suite(
            first_day=(TODAY - dt.timedelta(days=6)).isoformat(),
            last_day=None,
            evaluators={
                "judge": {**judge, "max_concurrency": 2, "breaker_window": 4, "retries": 0}
            },
            automation={
                "look_back_days": 2,
                "interval": 1,
                "backoff": 4,
                "attempts": 6,
                # The hour of the inventory, whose run would disturb the quiet ticks, is far off.
                "inventory_hour": (dt.datetime.now(dt.UTC).hour + 12) % 24,
            },
        )
        made = Unattended(project, endpoint)
        try:
            made.start()
            yield made
        finally:
            made.stop()


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(20)


def _up(made: Unattended) -> bool:
    try:
        loaded = made.ask(
            "{workspaceOrError {... on Workspace {locationEntries {locationOrLoadError "
            "{__typename ... on PythonError {message}}}}}}"
        )
    except (urllib.error.URLError, ConnectionError):
        return False
    (entry,) = loaded["workspaceOrError"]["locationEntries"]
    assert entry["locationOrLoadError"]["__typename"] != "PythonError", entry
    return True


def test_a_person_can_leave_it_on(unattended: Unattended) -> None:
    endpoint = unattended.endpoint
    day = CHAT + TRANSLATION

    # (a) A day arrives and is published. An older one, outside the window, is left alone.
    unattended.write(OLD, rows(OLD))
    unattended.write(DAY_1, rows(DAY_1))
    unattended.wait("the first day's publication", lambda: unattended.published(DAY_1) is not None)
    assert endpoint.total == day
    assert endpoint.most_in_flight <= 2, "the pool lets one shard at a time ask"

    # (b) Another arrives while the endpoint is down: retried with back-off, recovered, nothing repeated.
    healthy = 4

    def failing(ask: Ask) -> Reply:
        if sum(endpoint.answered.values()) < day + healthy:
            return valid(ask)
        return Reply(status=500, body={"error": {"message": "down for the night"}})

    endpoint.behave = failing
    unattended.write(DAY_2, rows(DAY_2))
    unattended.wait(
        "a second attempt that fails too",
        lambda: 2 in Counter(run for run in unattended.runs() if run[2] == "FAILURE").values(),
    )
    assert unattended.published(DAY_2) is None
    endpoint.behave = valid
    unattended.wait("the second day's publication", lambda: unattended.published(DAY_2) is not None)
    assert sum(endpoint.answered.values()) == 2 * day
    assert set(endpoint.answered.values()) == {1}, "no finished request is repeated"

    # A second daemon is started by mistake and asks for the same: nothing is judged twice.
    with unattended.second_daemon():
        # (c) Late rows of the first day: exactly those are judged.
        before, published = endpoint.total, unattended.published(DAY_1)
        compared = unattended.published(DAY_2)
        unattended.write(DAY_1, [*rows(DAY_1), *rows(DAY_1, first=500, chat=30, translation=0)])
        unattended.wait("publication anew", lambda: unattended.published(DAY_1) != published)
        # The day after is compared with the first: it is published anew, and nothing of it is judged.
        unattended.wait("the day after", lambda: unattended.published(DAY_2) != compared)
        assert endpoint.total == before + 30

        # (d) The translation prompt changes: translations of the window are judged again, and nothing else.
        before = endpoint.total
        published_1, published_2 = unattended.published(DAY_1), unattended.published(DAY_2)
        folder = unattended.project.folder / "prompts" / "translation"
        rubric, judge = (folder / "rubric.yaml").read_text(), (folder / "judge.j2").read_text()
        (folder / "judge.j2").write_text(
            judge.replace("{% block user -%}", "{% block user -%}\nStrictly.\n")
        )
        (folder / "rubric.yaml").write_text(rubric.replace("version: 1", "version: 2"))
        unattended.wait(
            "both days' publication anew",
            lambda: (
                unattended.published(DAY_1) != published_1
                and unattended.published(DAY_2) != published_2
            ),
        )
        assert endpoint.total == before + 2 * TRANSLATION
        assert all("Strictly" in b["messages"][1]["content"] for b in endpoint.bodies[before:])

    # (e) Ten quiet ticks: nothing runs.
    unattended.wait("the end of every run", unattended.quiet)
    runs, ticks = unattended.runs(), unattended.ticks()
    unattended.wait(
        "ten ticks", lambda: min((unattended.ticks() - ticks).values(), default=0) >= 10
    )
    assert unattended.runs() == runs
    assert endpoint.total == before + 2 * TRANSLATION
    assert not any(partition.startswith(OLD) for _, partition, _ in runs)

    # (f) Everything is killed in the middle of a shard: after a restart the rest is asked.
    def slowly(ask: Ask) -> Reply:
        return replace(valid(ask), delay=0.5)

    endpoint.behave = slowly
    before, published = endpoint.total, unattended.published(DAY_1)
    unattended.write(DAY_1, [*rows(DAY_1), *rows(DAY_1, first=700, chat=40, translation=0)])
    unattended.wait("answers", lambda: endpoint.total > before + 6)
    unattended.kill()
    endpoint.behave = valid
    unattended.start()
    unattended.wait("publication anew", lambda: unattended.published(DAY_1) != published)
    under_way = 2 * unattended.project.suite.shards
    assert before + 40 <= endpoint.total <= before + 40 + under_way
    unattended.wait("the end of every run", unattended.quiet)


def test_a_benchmark_whose_process_is_killed_is_started_again(project: Project) -> None:
    home = make_home(project)
    sample = ROOT / "sample" / "dialogue"
    (project.folder / "predictions").mkdir()
    shutil.copy(sample / "predictions" / "careful.json", project.folder / "predictions")
    project.write_suite(
        dialogue={
            "corpus": str(sample / "corpus"),
            "predictions": "predictions",
            "resamples": 200,
        },
        automation={"interval": 1},
    )

    def killed() -> bool:
        for run in instance.get_runs(
            dg.RunsFilter(job_name=EVALUATE, statuses=[dg.DagsterRunStatus.STARTED])
        ):
            if PROCESS_TAG in run.tags:
                os.kill(int(run.tags[PROCESS_TAG].split()[1]), signal.SIGKILL)
                return True
        return False

    with Endpoint(valid) as endpoint, dg.DagsterInstance.from_config(str(home)) as instance:
        unattended = Unattended(project, endpoint)
        try:
            # The run waits for the leaderboard, whose making is held here, until it has been killed.
            with alone(project.store.root / "dialogue" / ".leaderboard.lock"):
                unattended.start()
                unattended.wait("the start of an evaluation", killed)
            unattended.wait("the leaderboard", project.store.table("dialogue/leaderboard").exists)
            unattended.wait("the end of every run", unattended.quiet)
            found = [status for job, _, status in unattended.runs() if job == EVALUATE]
        finally:
            unattended.stop()
    assert found == ["SUCCESS", "FAILURE"], "newest first"
