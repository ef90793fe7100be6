"""A whole project in a folder of its own: suite, prompts, logs, and a Dagster instance."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from assets import build_assets
from assets.jobs import build_jobs, steps_of_a_day
from gavel.store.files import Store
from gavel.suite import Suite, load_suite
from resources import build_resources

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("GAVEL_TEST_DATA") or ROOT.parent / "shared" / "data")
"""Real data that the project does not ship; tests that need it skip where it is absent."""

SILENT = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@dataclass
class Project:
    """A suite file with everything it names, and the instance its runs are recorded on."""

    folder: Path
    instance: dg.DagsterInstance
    settings: dict[str, Any] = field(default_factory=dict)

    def write_suite(self, **changes: Any) -> None:
        """Write suite.yaml: the settings so far with `changes`."""
        self.settings |= changes
        (self.folder / "suite.yaml").write_text(yaml.safe_dump(self.settings), encoding="utf-8")

    @property
    def suite(self) -> Suite:
        return load_suite(self.folder / "suite.yaml")

    @property
    def store(self) -> Store:
        return Store(self.suite.path(self.suite.store))

    def definitions(self) -> dg.Definitions:
        suite = self.suite
        return dg.Definitions(
            assets=build_assets(suite),
            jobs=build_jobs(suite),
            resources=build_resources(suite),
            executor=dg.in_process_executor,
        )

    def run(self, job: str, partition: str | None = None) -> dg.ExecuteInProcessResult:
        """One run of `job`."""
        return (
            self.definitions()
            .resolve_job_def(job)
            .execute_in_process(
                instance=self.instance,
                partition_key=partition,
                raise_on_error=False,
                run_config=SILENT,
            )
        )

    def evaluate(self, day: str) -> None:
        """Every step of `day`, each of which must succeed."""
        for job, partition in steps_of_a_day(self.suite, day):
            result = self.run(job, partition)
            assert result.success, f"{job} {partition}: {failure_of(result)}"


def failure_of(result: dg.ExecuteInProcessResult) -> str:
    """What a run that failed told a person."""
    for event in result.all_events:
        if event.is_step_failure:
            data = event.step_failure_data
            if data.user_failure_data is not None:
                return str(data.user_failure_data.description)
            assert data.error is not None
            return (data.error.cause or data.error).message
    return ""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A project with the bundled prompts, the heuristic baseline and no logs yet."""
    shutil.copytree(ROOT / "prompts", tmp_path / "prompts")
    (tmp_path / "logs").mkdir()
    with dg.DagsterInstance.ephemeral() as instance:
        made = Project(tmp_path, instance)
        made.write_suite(
            name="test",
            first_day="2026-11-02",
            last_day="2026-11-08",
            sources=[{"name": "shop", "format": "jsonl", "path": "logs/{day}.jsonl"}],
            evaluator="judge",
            evaluators={"judge": {"backend": "heuristic"}},
            shards=2,
        )
        yield made
