"""The whole way in the cloud: logs in BigQuery, tables in Cloud Storage, scores in BigQuery."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from tests.e2e.conftest import Project, project
from tests.e2e.test_daily import DAY, ROWS, judged
from tests.endpoint import Ask, Endpoint, Reply, valid

from .conftest import Place
from .servers import DATASET, PROJECT
from .test_day import InBucket, moved

__all__ = ["judged", "project"]

TASKS = {"chat": 24, "translation": 12}
OF_THE_SOURCE = {"source_file", "source_line", "shard", "shard_row"}
"""Columns that tell where a row stood, which is another place in a table than in a file."""
OF_THE_RUN = {"run_id", "evaluated_at", "latency_ms", "worker", "reused"}


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """Judges by the record alone, and one record never validly, so that it is not published."""

    def behave(ask: Ask) -> Reply:
        if "wall number 7?" in ask.record:
            return Reply("no verdict")
        return valid(ask)

    with Endpoint(behave) as server:
        yield server


def loaded(client: Any) -> str:
    """The same logs as in the files, as a table of BigQuery."""
    from google.cloud import bigquery

    name = f"{PROJECT}.{DATASET}.logs_{uuid.uuid4().hex[:8]}"
    kinds = {"start_time": "TIMESTAMP"}
    schema = [bigquery.SchemaField(column, kinds.get(column, "STRING")) for column in ROWS[0]]
    table = bigquery.Table(name, schema=[*schema, bigquery.SchemaField("created", "DATE")])
    table.time_partitioning = bigquery.TimePartitioning(field="created")
    client.create_table(table)
    rows = [{**row, "created": row["start_time"][:10]} for row in reversed(ROWS)]
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    config = bigquery.LoadJobConfig(source_format="NEWLINE_DELIMITED_JSON", schema=table.schema)
    client.load_table_from_file(io.BytesIO(content), name, job_config=config).result()
    return name


def in_cloud(client: Any, judged: Project, place: Place) -> InBucket:
    source = {
        "name": "shop",
        "format": "bigquery",
        "path": loaded(client),
        "date_column": "created",
    }
    return moved(
        judged,
        place,
        sources=[source],
        warehouse=f"bigquery://{PROJECT}/scores_{uuid.uuid4().hex[:8]}",
        bigquery={"project": PROJECT, "location": "EU"},
    )


def published_there(client: Any, there: Project, task: str) -> list[dict[str, Any]]:
    found = there.suite.dataset
    assert found is not None
    dataset = ".".join(found)
    query = (
        f"SELECT * FROM `{dataset}.{task}_scores` JOIN `{dataset}_restricted.{task}_texts` "
        "USING (day, row_id, status) ORDER BY row_id"
    )
    return [dict(row.items()) for row in client.query(query).result()]


def published_here(here: Project, task: str) -> list[dict[str, Any]]:
    with duckdb.connect(str(here.suite.path(here.suite.warehouse)), read_only=True) as db:
        db.execute("SET TimeZone = 'UTC'")
        query = f"SELECT * FROM restricted.{task}_scores ORDER BY row_id"
        return db.sql(query).to_arrow_table().to_pylist()


def compared(row: dict[str, Any], among: dict[str, Any]) -> dict[str, Any]:
    """What a row says in either warehouse; the log's own further columns stand in `extra` as JSON."""
    left = {k: v for k, v in row.items() if k not in OF_THE_SOURCE | OF_THE_RUN}
    extra = json.loads(left.pop("extra") or "{}")
    extra.pop("created", None)
    assert left.keys() == {k for k in among if k not in OF_THE_SOURCE | OF_THE_RUN | {"extra"}}
    # BigQuery knows no list that is null.
    lists = {name: left[name] or [] for name in ("retries", "field_confidence", "faults")}
    return {**left, **lists, **extra}


def test_a_day_in_the_cloud_publishes_the_rows_that_a_day_here_does(
    client: Any, judged: Project, place: Place, endpoint: Endpoint
) -> None:
    judged.evaluate(DAY)
    here = {task: published_here(judged, task) for task in TASKS}
    assert [len(rows) for rows in here.values()] == [23, 12]

    there = in_cloud(client, judged, place)
    place.on_machine("in the cloud")
    before = endpoint.total
    there.evaluate(DAY)
    asked = endpoint.total - before
    for task, rows in here.items():
        found = published_there(client, there, task)
        first = found[0]
        assert [compared(row, first) for row in found] == [compared(row, first) for row in rows]

    place.on_machine("another")
    there.evaluate(DAY)
    assert endpoint.total - before == asked, "and made again it asks nothing, and doubles nothing"
    assert [len(published_there(client, there, task)) for task in TASKS] == [23, 12]
