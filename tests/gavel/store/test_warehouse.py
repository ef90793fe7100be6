"""Publication: a day of the warehouse is replaced whole, or not at all."""

import datetime as dt
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gavel.errors import StoreError
from gavel.store import warehouse as module
from gavel.store.warehouse import Warehouse

from .conftest import python

Scores = Callable[..., Path]
FREE_TEXT = (
    *("user_id", "prompt", "response", "reference", "source_text", "rationale", "raw_response"),
    *("fault_detail", "retail_info", "extra"),
)
MONDAY, TUESDAY = "2026-11-02", "2026-11-03"
HOLD = """
import sys, duckdb, time
held = duckdb.connect(sys.argv[1])
print("held", flush=True)
time.sleep(60)
"""
STOP_BEFORE_COMMIT = """
import sys, time, duckdb
from pathlib import Path
from gavel.store import warehouse
connect = duckdb.connect
class Stopping:
    def __init__(self, connection): self.connection = connection
    def __getattr__(self, name): return getattr(self.connection, name)
    def execute(self, query, *rest):
        if query == "COMMIT":
            print("before the commit", flush=True)
            time.sleep(60)
        return self.connection.execute(query, *rest)
warehouse.duckdb.connect = lambda *a, **k: Stopping(connect(*a, **k))
warehouse.Warehouse(Path(sys.argv[1])).publish("chat", sys.argv[2], Path(sys.argv[3]))
"""


@pytest.fixture
def scores(tmp_path: Path) -> Scores:
    """Writes a table of scores: one row a value of helpfulness, `None` unresolved."""

    def write(*helpfulness: Any, kind: pa.DataType | None = None, **columns: Any) -> Path:
        rows: dict[str, Any] = {
            "row_id": pa.array((f"{i:032x}" for i in range(len(helpfulness))), pa.string()),
            "prompt": pa.array(["a customer's words"] * len(helpfulness), pa.string()),
            "helpfulness": pa.array(helpfulness, kind or pa.float64()),
            "status": pa.array(
                ("unresolved" if value is None else "valid" for value in helpfulness), pa.string()
            ),
        }
        path = tmp_path / "scores.parquet"
        pq.write_table(
            pa.table(rows | {n: [v] * len(helpfulness) for n, v in columns.items()}), path
        )
        return path

    return write


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "new folder" / "warehouse.duckdb")


def rows(warehouse: Warehouse, query: str) -> Sequence[Any]:
    with duckdb.connect(str(warehouse.file), read_only=True) as connection:
        return connection.execute(query).fetchall()


def held(warehouse: Warehouse, task: str = "chat") -> Sequence[Any]:
    found = rows(warehouse, f"SELECT day, helpfulness FROM {task}_scores ORDER BY ALL")
    return [(day.isoformat(), value) for day, value in found]


def test_a_day_published_twice_is_there_once(warehouse: Warehouse, scores: Scores) -> None:
    for _ in range(2):
        assert warehouse.publish("chat", MONDAY, scores(1.0, 2.0)) == 2
    assert held(warehouse) == [(MONDAY, 1.0), (MONDAY, 2.0)]


def test_a_day_is_replaced_whole_and_other_days_and_tasks_stay(
    warehouse: Warehouse, scores: Scores
) -> None:
    warehouse.publish("chat", MONDAY, scores(1.0, 2.0, 3.0))
    warehouse.publish("chat", TUESDAY, scores(4.0))
    warehouse.publish("translation", MONDAY, scores(5.0))
    assert warehouse.publish("chat", MONDAY, scores(2.0)) == 1
    assert held(warehouse) == [(MONDAY, 2.0), (TUESDAY, 4.0)]
    assert held(warehouse, "translation") == [(MONDAY, 5.0)]


def test_a_day_without_rows_empties_it(warehouse: Warehouse, scores: Scores) -> None:
    warehouse.publish("chat", MONDAY, scores(1.0))
    assert warehouse.publish("chat", MONDAY, scores()) == 0
    assert held(warehouse) == []


def test_unresolved_records_are_not_published(warehouse: Warehouse, scores: Scores) -> None:
    assert warehouse.publish("chat", MONDAY, scores(1.0, None)) == 1
    assert held(warehouse) == [(MONDAY, 1.0)]


def test_new_columns_are_null_for_older_days_and_missing_ones_for_newer(
    warehouse: Warehouse, scores: Scores
) -> None:
    warehouse.publish("chat", MONDAY, scores(1.0, clarity=3.0))
    warehouse.publish("chat", TUESDAY, scores(2.0, tone=4.0))
    found = rows(warehouse, "SELECT day, clarity, tone FROM chat_scores ORDER BY day")
    assert found == [(dt.date(2026, 11, 2), 3.0, None), (dt.date(2026, 11, 3), None, 4.0)]


def test_a_column_of_another_type_is_refused_and_named(
    warehouse: Warehouse, scores: Scores
) -> None:
    warehouse.publish("chat", MONDAY, scores(1.0))
    with pytest.raises(StoreError, match=r"chat_scores\.helpfulness holds DOUBLE, .* hold VARCHAR"):
        warehouse.publish("chat", MONDAY, scores("good", kind=pa.string()))
    assert held(warehouse) == [(MONDAY, 1.0)]


def test_what_could_not_be_published_is_known_before(warehouse: Warehouse, scores: Scores) -> None:
    words = pq.read_schema(scores("much", kind=pa.string()))
    warehouse.admit("chat", words)
    assert not warehouse.file.exists()
    warehouse.publish("chat", MONDAY, scores(1.0))
    warehouse.admit("translation", words)
    warehouse.admit("chat", pq.read_schema(scores(1.0, clarity=[2.0])))
    with pytest.raises(StoreError, match=r"chat_scores\.helpfulness holds DOUBLE, the new rows"):
        warehouse.admit("chat", words)


def test_a_refused_publication_leaves_no_new_column(warehouse: Warehouse, scores: Scores) -> None:
    warehouse.publish("chat", MONDAY, scores(1.0))
    with pytest.raises(StoreError):
        warehouse.publish("chat", TUESDAY, scores("good", kind=pa.string(), added="x"))
    assert "added" not in [name for name, *_ in rows(warehouse, "DESCRIBE restricted.chat_scores")]


def test_the_open_view_has_no_free_text_and_the_full_table_has(
    warehouse: Warehouse, scores: Scores
) -> None:
    secret = dict.fromkeys((name for name in FREE_TEXT if name != "prompt"), "a customer's words")
    warehouse.publish("chat", MONDAY, scores(1.0, **secret))
    view = [name for name, *_ in rows(warehouse, "DESCRIBE chat_scores")]
    assert view == ["day", "row_id", "helpfulness", "status"]
    full = [name for name, *_ in rows(warehouse, "DESCRIBE restricted.chat_scores")]
    assert set(full) == {*view, *FREE_TEXT}


def test_a_table_in_a_folder_with_a_quote_is_published(
    warehouse: Warehouse, scores: Scores, tmp_path: Path
) -> None:
    path = tmp_path / "it's" / "scores.parquet"
    path.parent.mkdir()
    scores(1.0).rename(path)
    assert warehouse.publish("chat", MONDAY, path) == 1


def test_the_days_a_record_is_published_under(warehouse: Warehouse, scores: Scores) -> None:
    first, second = f"{0:032x}", f"{1:032x}"
    assert warehouse.published("chat", first) == [], "no warehouse yet"
    warehouse.publish("chat", TUESDAY, scores(1.0))
    warehouse.publish("chat", MONDAY, scores(1.0, 1.0))
    assert warehouse.published("chat", first) == [MONDAY, TUESDAY]
    assert warehouse.published("chat", second) == [MONDAY]
    assert warehouse.published("translation", first) == [], "a task never published"


def test_a_process_that_holds_the_file_is_waited_for(
    warehouse: Warehouse, scores: Scores, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse.publish("chat", MONDAY, scores(1.0))
    with python(HOLD, warehouse.file) as process:
        monkeypatch.setattr(module, "_WAIT", 0.2)
        with pytest.raises(StoreError, match=r"warehouse\.duckdb: another process has held it for"):
            warehouse.publish("chat", MONDAY, scores(2.0))
        monkeypatch.setattr(module, "_WAIT", 30.0)
        monkeypatch.setattr(time, "sleep", lambda _: (process.kill(), process.wait()))
        assert warehouse.publish("chat", MONDAY, scores(3.0)) == 1
    assert held(warehouse) == [(MONDAY, 3.0)]


def test_a_file_that_cannot_be_opened_is_told_at_once(
    scores: Scores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(time, "sleep")  # nothing is waited for
    file = tmp_path / "block" / "warehouse.duckdb"  # "lock" in the path is no lock
    file.parent.mkdir()
    file.write_bytes(b"no database" * 1000)
    with pytest.raises(StoreError, match=r"warehouse\.duckdb: cannot be opened"):
        Warehouse(file).publish("chat", MONDAY, scores(1.0))


def test_a_process_killed_before_the_commit_leaves_the_old_day(
    warehouse: Warehouse, scores: Scores
) -> None:
    warehouse.publish("chat", MONDAY, scores(1.0, 2.0))
    with python(STOP_BEFORE_COMMIT, warehouse.file, MONDAY, scores(3.0)) as process:
        process.kill()
        process.wait()
    assert held(warehouse) == [(MONDAY, 1.0), (MONDAY, 2.0)]
    assert warehouse.publish("chat", MONDAY, scores(3.0)) == 1
    assert held(warehouse) == [(MONDAY, 3.0)]


def test_a_full_disk_is_a_sentence_and_leaves_the_old_day(tiny_disk: Path, scores: Scores) -> None:
    warehouse = Warehouse(tiny_disk / "warehouse.duckdb")
    warehouse.publish("chat", MONDAY, scores(1.0))
    large = scores(*(i / 3 for i in range(100_000)))
    with pytest.raises(StoreError, match=r"the disk is full; .*the day keeps what it held"):
        warehouse.publish("chat", MONDAY, large)
    assert held(warehouse) == [(MONDAY, 1.0)]
