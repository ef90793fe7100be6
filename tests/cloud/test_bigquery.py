"""Log rows from BigQuery, and scores into it."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gavel.errors import SourceError, StoreError
from gavel.logs import bigquery as module
from gavel.logs.sources import check_source, fingerprint, read_raw
from gavel.store import bigquery as store
from gavel.store.bigquery import BigQueryWarehouse
from gavel.store.warehouse import FREE_TEXT, About
from gavel.suite import Suite, load_suite
from resources.bigquery import connect

from .servers import DATASET, PROJECT, Way

DAY, NEXT = dt.date(2026, 11, 2), dt.date(2026, 11, 3)
ROOT = Path(__file__).parents[2]


def suite_of(folder: Path, **source: Any) -> Suite:
    settings = {
        "first_day": "2026-11-01",
        "prompts": str(ROOT / "prompts"),
        "sources": [{"name": "shop", "format": "bigquery", "task": "chat", **source}],
        "evaluators": {"judge": {"backend": "heuristic"}},
        "evaluator": "judge",
        "bigquery": {"project": PROJECT, "location": "EU"},
    }
    file = folder / "suite.yaml"
    file.write_bytes(orjson.dumps(settings))
    return load_suite(file)


@pytest.fixture
def table(client: Any) -> str:
    """A table of logs with a row at each end of a day, one the day after, and one without a date."""
    name = f"{PROJECT}.{DATASET}.logs_{uuid.uuid4().hex[:8]}"
    client.query(
        f"CREATE TABLE `{name}` (id STRING, user_id STRING, conversation_id STRING, start_time TIMESTAMP, "
        "created DATE, local DATETIME, prompt STRING, response STRING, tokens INT64, share FLOAT64, "
        "context JSON, tags ARRAY<STRING>) PARTITION BY created"
    ).result()
    for id_, day, clock in (
        ("b", "2026-11-02", "23:59:59"),
        ("a", "2026-11-02", "00:00:00"),
        ("c", "2026-11-03", "00:00:00"),
    ):
        client.query(
            f"INSERT INTO `{name}` VALUES ('{id_}', 'u', 'k', TIMESTAMP '{day} {clock}+00', DATE '{day}', "
            f"DATETIME '{day} {clock}', 'a \"quoted\" question', 'an answer', 3, NULL, "
            "JSON '{\"page\": 1}', ['x'])"
        ).result()
    client.query(
        f"INSERT INTO `{name}` (id, prompt, response) VALUES ('no date', 'p', 'r')"
    ).result()
    return name


def ids(suite: Suite, day: dt.date) -> list[str]:
    batches = list(read_raw(suite.sources[0], day, suite, connect))
    return [orjson.loads(r["record"])["id"] for batch in batches for r in batch.to_pylist()]


@pytest.mark.parametrize("column", ["created", "start_time", "local"])
def test_a_day_has_its_rows_in_the_order_of_their_ids(
    table: str, tmp_path: Path, column: str
) -> None:
    suite = suite_of(tmp_path, path=table, date_column=column)
    assert ids(suite, DAY) == ["a", "b"]
    assert ids(suite, NEXT) == ["c"]
    assert ids(suite, suite.first_day) == ["no date"], "such a row is rejected, not lost"


def test_a_day_is_one_of_the_suites_time_zone(table: str, tmp_path: Path) -> None:
    suite = suite_of(tmp_path, path=table, date_column="start_time")
    suite = suite.model_copy(update={"timezone": "America/New_York"})
    suite._file = tmp_path / "suite.yaml"
    assert ids(suite, DAY) == ["b", "c"]


def test_values_arrive_as_json(table: str, tmp_path: Path) -> None:
    suite = suite_of(tmp_path, path=table, date_column="created")
    (batch,) = read_raw(suite.sources[0], NEXT, suite, connect)
    (row,) = batch.to_pylist()
    assert (row["source"], row["file"], row["line"]) == ("shop", f"bigquery://{table}", 1)
    assert orjson.loads(row["record"]) == {
        "id": "c",
        "user_id": "u",
        "conversation_id": "k",
        "start_time": "2026-11-03 00:00:00+00",
        "created": "2026-11-03",
        "local": "2026-11-03 00:00:00",
        "prompt": 'a "quoted" question',
        "response": "an answer",
        "tokens": 3,
        "share": None,
        "context": {"page": 1},
        "tags": ["x"],
    }


def test_only_named_columns_are_read_and_a_query_may_stand_for_the_table(
    table: str, tmp_path: Path, client: Any
) -> None:
    needed = ["id", "user_id", "conversation_id", "start_time", "prompt", "response"]
    query = f"SELECT *, CONCAT('[', response, ']') AS bot FROM `{table}` WHERE id <> 'a';"
    suite = suite_of(
        tmp_path,
        path=table,
        date_column="created",
        query=query,
        only=needed,
        columns={"response": "bot"},
    )
    (batch,) = read_raw(suite.sources[0], DAY, suite, connect)
    (record,) = [orjson.loads(row["record"]) for row in batch.to_pylist()]
    assert record.keys() == {*needed, "created", "bot"}
    assert record["bot"] == "[an answer]"
    newest = next(iter(client.list_jobs(max_results=1)))
    assert newest.labels == {"gavel": "ingest", "gavel_source": "shop"}
    assert newest.maximum_bytes_billed == 100 * 10**9
    assert "t.`tags`" not in newest.query
    assert "t.`created` = @day" in newest.query, (
        "the bare column, so that no other partition is scanned"
    )


def test_a_scan_beyond_the_bound_is_refused_before_it_costs(
    table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = suite_of(tmp_path, path=table, date_column="created")
    scan = module.scan_of(suite.sources[0], DAY, suite, connect)
    assert scan.warning is None
    real = module.run

    def costly(*arguments: Any, **settings: Any) -> Any:
        """The emulator scans nothing by its own account."""
        job = real(*arguments, **settings)
        if settings.get("dry_run"):
            told = job._properties["statistics"]["query"]
            told["totalBytesProcessed"] = str(101 * 10**9)
        else:
            raise AssertionError("it was run")
        return job

    monkeypatch.setattr(module, "run", costly)
    with pytest.raises(SourceError, match=r"would scan 101\.0 GB, more than .* \(100\)"):
        list(read_raw(suite.sources[0], DAY, suite, connect))


def test_a_table_that_is_not_partitioned_so_is_warned_of(table: str, tmp_path: Path) -> None:
    suite = suite_of(tmp_path, path=table, date_column="start_time")
    scan = module.scan_of(suite.sources[0], DAY, suite, connect)
    assert "is not partitioned by start_time" in str(scan.warning)


def test_a_fingerprint_tells_of_the_days_own_partition(
    table: str, tmp_path: Path, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite = suite_of(tmp_path, path=table, date_column="created")

    def seen(day: dt.date) -> str | None:
        monkeypatch.setattr(module, "_partitions_seen", {})
        return fingerprint(suite.sources[0], day, suite, connect)

    before = [seen(day) for day in (DAY, NEXT)]
    assert None not in before
    assert seen(dt.date(2026, 11, 9)) is None
    client.query(f"INSERT INTO `{table}` (id, created) VALUES ('late', DATE '2026-11-02')").result()
    assert seen(DAY) != before[0]
    assert seen(NEXT) == before[1]
    assert check_source(suite.sources[0], suite, connect)[0] == [DAY, NEXT]


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ({"path": f"{PROJECT}.{DATASET}.none"}, "is not there"),
        ({"date_column": "prompt"}, "is of type STRING; accepted: DATE, TIMESTAMP, DATETIME"),
        ({"date_column": "when"}, "there is no column 'when'"),
        ({"query": "SELEKT 1"}, "BigQuery refuses it"),
        ({"only": ["prompt", "chanel"]}, "only: 'chanel' is no column of"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    table: str, tmp_path: Path, source: dict[str, Any], sentence: str
) -> None:
    suite = suite_of(tmp_path, **{"path": table, "date_column": "created", **source})
    with pytest.raises(SourceError, match=sentence) as error:
        list(read_raw(suite.sources[0], DAY, suite, connect))
    assert "sources.shop" in str(error.value)
    assert "\n" not in str(error.value)
    with pytest.raises(SourceError, match=sentence):
        module.columns_of(suite.sources[0], suite, connect)


@pytest.fixture
def warehouse(client: Any) -> BigQueryWarehouse:
    return BigQueryWarehouse(PROJECT, f"scores_{uuid.uuid4().hex[:8]}", "EU", connect)


SURE = pa.list_(pa.struct([("field", pa.string()), ("confidence", pa.float64())]))


def scores(folder: Path, *helpfulness: float | None, **columns: Any) -> Path:
    """A table of scores: one row a value, `None` unresolved."""
    count = len(helpfulness)
    texts = {"row_id": [f"{i:032x}" for i in range(count)], "prompt": ["words"] * count}
    same = {
        n: ["x"] * count
        for n in ("source", "record_id", "task", "evaluator", "model", "rubric_hash")
    }
    table = pa.table(
        {
            **texts,
            **same,
            "config_hash": ["0F3a"] * count,
            "helpfulness": pa.array(helpfulness, pa.float64()),
            "faults": pa.array([["not_json"]] * count, pa.list_(pa.string())),
            "field_confidence": pa.array([[{"field": "tone", "confidence": 0.5}]] * count, SURE),
            "evaluated_at": pa.array(
                [dt.datetime(2026, 11, 3, tzinfo=dt.UTC)] * count, pa.timestamp("us", "UTC")
            ),
            "status": ["unresolved" if value is None else "valid" for value in helpfulness],
            **{name: pa.array([value] * count) for name, value in columns.items()},
        }
    )
    path = folder / "scores.parquet"
    pq.write_table(table, path)
    return path


MONDAY, TUESDAY = "2026-11-02", "2026-11-03"
ABOUT = About("Run-1", {"helpfulness": "Whether it helps"}, ["helpfulness"])


def published(
    client: Any, warehouse: BigQueryWarehouse, what: str = "day, helpfulness"
) -> list[Any]:
    query = f"SELECT {what} FROM `{PROJECT}.{warehouse.dataset}.chat_scores` ORDER BY 1, 2"
    return [tuple(row.values()) for row in client.query(query).result()]


def test_a_day_is_replaced_whole_and_once(
    client: Any, warehouse: BigQueryWarehouse, tmp_path: Path
) -> None:
    for _ in range(2):
        assert warehouse.publish("chat", MONDAY, scores(tmp_path, 1.0, 2.0, None), ABOUT) == 2
    warehouse.publish("chat", TUESDAY, scores(tmp_path, 4.0), ABOUT)
    warehouse.publish("chat", MONDAY, scores(tmp_path, 3.0), ABOUT)
    assert published(client, warehouse) == [(DAY, 3.0), (NEXT, 4.0)]
    assert warehouse.published("chat", f"{0:032x}") == [MONDAY, TUESDAY]
    assert warehouse.published("translation", f"{0:032x}") == []


def test_the_table_says_what_it_holds_and_free_text_stands_apart(
    client: Any, warehouse: BigQueryWarehouse, tmp_path: Path
) -> None:
    warehouse.publish("chat", MONDAY, scores(tmp_path, 1.0), ABOUT)
    table = client.get_table(f"{PROJECT}.{warehouse.dataset}.chat_scores")
    fields = {field.name: field for field in table.schema}
    assert not fields.keys() & set(FREE_TEXT)
    assert (table.time_partitioning.field, table.clustering_fields) == ("day", ["row_id"])
    assert table.labels == {"gavel_task": "chat", "gavel_run": "run-1", "gavel_config": "0f3a"}
    assert (fields["helpfulness"].mode, fields["helpfulness"].description) == (
        "REQUIRED",
        "Whether it helps",
    )
    assert (fields["faults"].mode, fields["evaluated_at"].field_type) == ("REPEATED", "TIMESTAMP")
    assert fields["field_confidence"].mode == "REPEATED"
    parts = {part.name: part.field_type for part in fields["field_confidence"].fields}
    assert parts == {"field": "STRING", "confidence": "FLOAT"}
    sure = published(client, warehouse, "row_id, field_confidence")
    assert sure == [(f"{0:032x}", [{"field": "tone", "confidence": 0.5}])]
    apart = client.get_table(f"{PROJECT}.{warehouse.dataset}_restricted.chat_texts")
    assert {f.name for f in apart.schema} == {"day", "row_id", "status", "prompt"}
    staged = [t.table_id for t in client.list_tables(f"{PROJECT}.{warehouse.dataset}_restricted")]
    assert staged == ["chat_texts"], "nothing staged is left behind"


def test_a_changed_rubric_adds_nullable_columns_and_loosens_those_it_lacks(
    client: Any, warehouse: BigQueryWarehouse, tmp_path: Path
) -> None:
    warehouse.publish(
        "chat", MONDAY, scores(tmp_path, 1.0, clarity=3.0), About("1", {}, ["clarity"])
    )
    warehouse.publish("chat", TUESDAY, scores(tmp_path, 2.0, tone=4.0), About("2", {}, ["tone"]))
    assert published(client, warehouse, "day, clarity, tone") == [
        (DAY, 3.0, None),
        (NEXT, None, 4.0),
    ]


def test_an_incompatible_change_is_refused_and_nothing_is_replaced(
    client: Any, warehouse: BigQueryWarehouse, tmp_path: Path
) -> None:
    warehouse.publish("chat", MONDAY, scores(tmp_path, 1.0, tone=4.0))
    with pytest.raises(StoreError, match="column tone holds FLOAT, the new rows hold STRING; give"):
        warehouse.publish("chat", MONDAY, scores(tmp_path, 2.0, tone="warm"))
    assert published(client, warehouse) == [(DAY, 1.0)]


def test_what_could_not_be_published_is_known_before_and_nothing_is_written(
    client: Any, warehouse: BigQueryWarehouse, tmp_path: Path
) -> None:
    warm = pq.read_schema(scores(tmp_path, 2.0, tone="warm"))
    warehouse.admit("chat", warm)
    assert not [d for d in client.list_datasets() if d.dataset_id == warehouse.dataset]
    warehouse.publish("chat", MONDAY, scores(tmp_path, 1.0, tone=4.0))
    with pytest.raises(StoreError, match="column tone holds FLOAT, the new rows hold STRING; give"):
        warehouse.admit("chat", warm)
    warehouse.admit("chat", pq.read_schema(scores(tmp_path, 2.0, clarity=1.0)))


def test_a_failed_transaction_replaces_nothing(
    client: Any, warehouse: BigQueryWarehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.publish("chat", MONDAY, scores(tmp_path, 1.0), ABOUT)
    real = store._stage

    def stage(connected: Any, staged: str, *arguments: Any) -> None:
        real(connected, staged, *arguments)
        client.query(f"ALTER TABLE `{staged}` DROP COLUMN prompt").result()

    monkeypatch.setattr(store, "_stage", stage)
    with pytest.raises(StoreError, match="BigQuery refuses it"):
        warehouse.publish("chat", MONDAY, scores(tmp_path, 2.0), ABOUT)
    assert published(client, warehouse) == [(DAY, 1.0)]


PUBLISH = """
import sys
from pathlib import Path
from gavel.store.bigquery import BigQueryWarehouse
from resources.bigquery import connect
print("ready", flush=True)
BigQueryWarehouse(sys.argv[1], sys.argv[2], "EU", connect).publish("chat", sys.argv[3], Path(sys.argv[4]))
"""


@pytest.fixture
def way(client: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Way]:
    """What lies between a publication and the server."""
    found = Way(int(os.environ["BIGQUERY_EMULATOR_HOST"].rsplit(":", 1)[1]))
    monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", found.url)
    yield found
    found.close()


def test_an_overloaded_server_loses_and_doubles_nothing(
    client: Any, warehouse: BigQueryWarehouse, tmp_path: Path, way: Way
) -> None:
    warehouse.publish("chat", MONDAY, scores(tmp_path, 1.0), ABOUT)
    tries: Counter[str] = Counter()

    def behave(method: str, path: str) -> int | str | None:
        tries[method] += 1
        time.sleep(0.05)
        return 503 if tries[method] % 2 else None

    way.behave = behave
    assert warehouse.publish("chat", MONDAY, scores(tmp_path, 2.0, 3.0), ABOUT) == 2
    way.behave = lambda method, path: None
    assert published(client, warehouse) == [(DAY, 2.0), (DAY, 3.0)]


def test_a_server_that_is_down_is_one_sentence_in_time(
    warehouse: BigQueryWarehouse, tmp_path: Path, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "PATIENCE", 3.0)
    way.behave = lambda method, path: 503
    with pytest.raises(StoreError, match=r"cannot be reached within 3 s .*; run again when"):
        warehouse.publish("chat", MONDAY, scores(tmp_path, 1.0), ABOUT)


@pytest.mark.parametrize(
    "at",
    ["PUT /upload/", "POST /upload/", f"POST /bigquery/v2/projects/{PROJECT}/jobs", "/queries"],
)
def test_a_server_that_says_nothing_is_one_sentence_in_time(
    client: Any,
    warehouse: BigQueryWarehouse,
    tmp_path: Path,
    way: Way,
    monkeypatch: pytest.MonkeyPatch,
    at: str,
) -> None:
    warehouse.publish("chat", MONDAY, scores(tmp_path, 1.0), ABOUT)
    monkeypatch.setattr(store, "PATIENCE", 4.0)
    # The library itself waits two minutes at least for the results of a query, which it may hold back so long.
    monkeypatch.setattr("google.cloud.bigquery.client._MIN_GET_QUERY_RESULTS_TIMEOUT", 4.0)
    silent = Event()

    def behave(method: str, path: str) -> int | str | None:
        if at in f"{method} {path}":
            silent.wait(60)
        return None

    way.behave = behave
    try:
        with pytest.raises(StoreError, match=r"cannot be reached within 4 s .*; run again when"):
            warehouse.publish("chat", MONDAY, scores(tmp_path, 2.0), ABOUT)
    finally:
        silent.set()
    way.behave = lambda method, path: None
    assert len(published(client, warehouse)) == 1, "the day is what it was, or what it is to be"


@pytest.mark.parametrize("at", ["/tables?", "PUT /upload/", "POST /upload/", "/jobs", "DELETE"])
def test_a_reply_that_is_lost_is_no_failure(
    client: Any, warehouse: BigQueryWarehouse, tmp_path: Path, way: Way, at: str
) -> None:
    warehouse.publish("chat", MONDAY, scores(tmp_path, 1.0), ABOUT)
    lost: list[str] = []

    def behave(method: str, path: str) -> int | str | None:
        if at in f"{method} {path}" and not lost:
            lost.append(path)
            return "lost"
        return None

    way.behave = behave
    assert warehouse.publish("chat", MONDAY, scores(tmp_path, 2.0, 3.0), ABOUT) == 2
    assert lost
    way.behave = lambda method, path: None
    assert published(client, warehouse) == [(DAY, 2.0), (DAY, 3.0)]
    left = [t.table_id for t in client.list_tables(f"{PROJECT}.{warehouse.dataset}_restricted")]
    assert left == ["chat_texts"], "nothing staged is left"


@pytest.mark.parametrize("at", ["/upload/", "DELETE", "/jobs"])
def test_a_publication_killed_in_the_middle_is_made_by_the_next(
    client: Any, warehouse: BigQueryWarehouse, tmp_path: Path, way: Way, at: str
) -> None:
    warehouse.publish("chat", MONDAY, scores(tmp_path, 1.0), ABOUT)
    path = scores(tmp_path, *[float(n) for n in range(500)])
    reached = Event()

    def behave(method: str, path: str) -> int | str | None:
        if at in f"{method} {path}":
            reached.set()
            time.sleep(0.3)
        return None

    way.behave = behave
    command = [sys.executable, "-c", PUBLISH, PROJECT, warehouse.dataset, MONDAY, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as run:
        assert reached.wait(60)
        run.kill()
    way.behave = lambda method, path: None
    time.sleep(1)  # what the server has in hand is done by then
    whole = [[(DAY, 1.0)], [(DAY, float(n)) for n in range(500)]]
    assert published(client, warehouse) in whole, "the day is what it was or what it is to be"
    assert warehouse.publish("chat", MONDAY, path, ABOUT) == 500
    assert published(client, warehouse) == whole[1]
