"""Days whose settings, prompts, logs and tables are all in a bucket, worked on by several machines."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow.parquet as pq
import pytest
import yaml

from gavel.judge.tables import VOLATILE
from gavel.store.files import Store
from gavel.suite import Suite, load_suite
from sensors.automation import log_arrivals, stale_partitions
from sensors.state import State
from tests.e2e.conftest import Project, project
from tests.e2e.test_daily import DAY, ROWS, judged, row, write_day
from tests.endpoint import Endpoint, valid

from .conftest import Place

__all__ = ["judged", "project"]

TASKS = ("chat", "translation")


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint(valid) as server:
        yield server


class InBucket(Project):
    """The same project, read from the bucket."""

    uri: str

    @property
    def suite(self) -> Suite:
        return load_suite(f"{self.uri}/suite.yaml")


def moved(project: Project, place: Place, **changes: Any) -> InBucket:
    """`project` as it is when its whole folder is in the bucket."""
    made = InBucket(project.folder, project.instance, dict(project.settings))
    made.uri = f"{place.uri}/gavel"
    made.write_suite(**{"warehouse": str(place.folder / "warehouse.duckdb"), **changes})
    place.upload(made.folder, "gavel/")
    return made


def scores(project: Project, task: str) -> list[dict[str, Any]]:
    table = pq.read_table(project.store.existing(f"{task}/scores", DAY))
    kept = [name for name in table.column_names if name not in {*VOLATILE, "source_file"}]
    return table.select(kept).to_pylist()


def test_a_day_in_a_bucket_gives_what_it_gives_here(
    judged: Project, place: Place, endpoint: Endpoint
) -> None:
    there = moved(judged, place)
    there.evaluate(DAY)
    asked = endpoint.total
    names = set(place.objects("gavel/"))
    wanted = {
        f"gavel/data/{name}/{DAY}.parquet" for name in ("logs/raw", "logs/clean", "chat/scores")
    }
    assert wanted | {f"gavel/data/report/{DAY}.html", f"gavel/data/report/{DAY}.json"} <= names
    assert not [name for name in names if name.endswith((".tmp", ".tail", ".lock", ".generation"))]

    judged.write_suite(warehouse="data/warehouse.duckdb")
    judged.evaluate(DAY)
    for task in TASKS:
        assert scores(there, task) == scores(judged, task)
    assert endpoint.total == 2 * asked


def test_another_machine_asks_nothing_again(
    judged: Project, place: Place, endpoint: Endpoint
) -> None:
    there = moved(judged, place)
    there.evaluate(DAY)
    before = [scores(there, task) for task in TASKS]
    asked = endpoint.total
    place.on_machine("second")
    there.evaluate(DAY)
    assert endpoint.total == asked
    assert [scores(there, task) for task in TASKS] == before

    write_day(judged, [*ROWS, row(900)])
    place.upload(judged.folder / "logs", "gavel/logs/")
    place.on_machine("third")
    there.evaluate(DAY)
    assert endpoint.total == asked + 1, "a late row alone is asked"


def test_machines_share_the_work_of_a_day(
    judged: Project, place: Place, endpoint: Endpoint
) -> None:
    there = moved(judged, place)
    from assets.jobs import steps_of_a_day

    for number, (job, partition) in enumerate(steps_of_a_day(there.suite, DAY)):
        place.on_machine(f"machine {number % 3}")
        assert there.run(job, partition).success
    assert endpoint.total == len(ROWS)
    assert [len(scores(there, task)) for task in TASKS] == [24, 12]


def test_sensors_see_what_other_machines_made(
    judged: Project, place: Place, endpoint: Endpoint
) -> None:
    there = moved(judged, place)

    def asked(tick: Any) -> list[str]:
        suite = there.suite
        now = dt.datetime(2026, 11, 9, 12, tzinfo=dt.UTC)
        state = State(suite, Store(suite.path(suite.store)), now)
        context = dg.build_sensor_context(instance=there.instance)
        result = tick(context, state)
        return [str(request.partition_key) for request in result.run_requests or []]

    assert asked(log_arrivals) == [DAY]
    there.evaluate(DAY)
    place.on_machine("second")
    assert asked(log_arrivals) == []
    assert asked(stale_partitions) == []
    place.bucket.blob(f"gavel/data/report/{DAY}.json").delete()
    assert asked(stale_partitions) == [DAY]


def test_a_database_in_a_bucket_is_refused(judged: Project, place: Place) -> None:
    there = moved(judged, place)
    settings = yaml.safe_load(Path(judged.folder, "suite.yaml").read_text())
    text = yaml.safe_dump({**settings, "warehouse": "data/warehouse.duckdb"})
    place.bucket.blob("gavel/suite.yaml").upload_from_string(text)
    with pytest.raises(Exception, match=f"{there.uri}/suite.yaml: warehouse: .* is in a bucket"):
        _ = there.suite
