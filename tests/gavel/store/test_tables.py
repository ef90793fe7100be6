"""Tables: written whole, and fingerprinted by content."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gavel.errors import StoreError
from gavel.store.tables import (
    content_hash,
    quoted,
    row_count,
    session,
    write_batches,
    write_query,
)

SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("number", pa.float64()),
        ("words", pa.list_(pa.string())),
        ("run_id", pa.string()),
    ]
)
# 0.0 and -0.0 are one value to DuckDB, so only one of them is drawn.
ROW = st.tuples(
    st.none() | st.sampled_from(["", "a", "b", "ä\n'\""]),
    st.none() | st.sampled_from([0.0, 1.0, float("inf")]),
    st.none() | st.lists(st.none() | st.sampled_from(["", "a", "b"]), max_size=2),
)
FOLDERS = count()
quick = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def table(rows: list[Any], run_id: str = "run") -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(SCHEMA.names, (*row, run_id), strict=True)) for row in rows], schema=SCHEMA
    )


@pytest.fixture
def fingerprint(tmp_path: Path) -> Any:
    def of(content: pa.Table, **written: Any) -> str:
        path = tmp_path / f"{next(FOLDERS)}.parquet"
        pq.write_table(content, path, **written)
        return content_hash(path, ["run_id"])

    return of


@quick
@given(st.lists(ROW, max_size=6))
def test_equal_content_has_an_equal_fingerprint_however_it_is_written(
    fingerprint: Any, rows: list[Any]
) -> None:
    plain = fingerprint(table(rows))
    assert fingerprint(table(rows), row_group_size=2, compression="zstd") == plain
    assert fingerprint(table(rows), compression="none", use_dictionary=False) == plain
    assert fingerprint(table(rows, run_id="another")) == plain, "run_id is volatile"


@quick
@given(st.lists(ROW, min_size=1, max_size=4), st.lists(ROW, min_size=1, max_size=4))
def test_other_rows_or_another_order_have_another_fingerprint(
    fingerprint: Any, rows: list[Any], others: list[Any]
) -> None:
    assert (fingerprint(table(rows)) == fingerprint(table(others))) == (rows == others)
    backwards = rows[::-1]
    assert (fingerprint(table(rows)) == fingerprint(table(backwards))) == (rows == backwards)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((None, 1.0, []), ("", 1.0, [])),
        (("a", None, []), ("a", 0.0, [])),
        (("a", 1.0, None), ("a", 1.0, [])),
        (("a", 1.0, [None]), ("a", 1.0, [])),
        (("a", 1.0, ["a", "b"]), ("a", 1.0, ["b", "a"])),
        (("a", 1.0, ["ab"]), ("a", 1.0, ["a", "b"])),
    ],
)
def test_null_is_neither_empty_nor_zero(fingerprint: Any, one: Any, other: Any) -> None:
    assert fingerprint(table([one])) != fingerprint(table([other]))


def test_a_renamed_column_changes_the_fingerprint(fingerprint: Any) -> None:
    rows = table([("a", 1.0, [])])
    renamed = rows.rename_columns(["txt", "number", "words", "run_id"])
    assert fingerprint(rows) != fingerprint(renamed)


def test_a_table_without_rows_has_a_fingerprint(fingerprint: Any) -> None:
    assert len(fingerprint(table([]))) == 32


def test_batches_become_one_file_with_its_rows_counted(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    batches = table([("a", 1.0, []), ("b", None, None)]).to_batches(max_chunksize=1)
    assert write_batches(path, SCHEMA, batches) == 2
    assert row_count(path) == 2
    assert pq.read_table(path)["text"].to_pylist() == ["a", "b"]


def test_an_error_among_the_batches_keeps_the_earlier_table(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write_batches(path, SCHEMA, table([("a", 1.0, [])]).to_batches())

    def broken() -> Iterator[pa.RecordBatch]:
        yield from table([("b", 1.0, [])]).to_batches()
        raise RuntimeError("upstream")

    with pytest.raises(RuntimeError):
        write_batches(path, SCHEMA, broken())
    assert pq.read_table(path)["text"].to_pylist() == ["a"]
    assert [file.name for file in tmp_path.iterdir()] == ["t.parquet"]


def test_a_query_is_written_with_the_columns_and_types_of_the_schema(tmp_path: Path) -> None:
    schema = pa.schema([("b", pa.float64()), ("a", pa.int32())])
    with session() as connection:
        query = (
            "SELECT i::BIGINT AS a, i / 2 AS b, 'dropped' AS c FROM range(3) t(i) ORDER BY i DESC"
        )
        assert write_query(tmp_path / "t.parquet", connection, query, schema) == 3
    written = pq.read_table(tmp_path / "t.parquet")
    assert written.schema == schema
    assert written.to_pydict() == {"b": [1.0, 0.5, 0.0], "a": [2, 1, 0]}


def test_a_full_disk_is_a_sentence_and_keeps_the_earlier_table(tiny_disk: Path) -> None:
    path = tiny_disk / "t.parquet"
    schema = pa.schema([("a", pa.string())])
    with session() as connection:
        write_query(path, connection, "SELECT 'old' AS a", schema)
        large = "SELECT md5(i::VARCHAR) AS a FROM range(300_000) t(i)"
        with pytest.raises(StoreError, match=r"t\.parquet: the disk is full"):
            write_query(path, connection, large, schema)
    assert pq.read_table(path)["a"].to_pylist() == ["old"]
    assert [file.name for file in tiny_disk.iterdir()] == ["t.parquet"]


def test_a_disk_too_full_to_spill_is_a_sentence(tiny_disk: Path, tmp_path: Path) -> None:
    path, schema = tmp_path / "t.parquet", pa.schema([("a", pa.string())])
    path.write_bytes(b"old")
    with session("20MB", spill=tiny_disk / "spill") as connection:
        large = "SELECT md5(i::VARCHAR) AS a FROM range(2_000_000) t(i) ORDER BY a"
        with pytest.raises(StoreError, match=r"t\.parquet: the disk is full"):
            write_query(path, connection, large, schema)
    assert path.read_bytes() == b"old"


def test_a_quote_in_a_path_is_quoted(tmp_path: Path) -> None:
    folder = tmp_path / "it's"
    paths = [folder / "1.parquet", folder / "2.parquet"]
    for path in paths:
        write_batches(path, SCHEMA, table([("a", 1.0, [])]).to_batches())
    with session() as connection:
        for files, rows in ((paths, 2), (paths[:1], 1)):
            query = f"SELECT count(*) FROM read_parquet({quoted(*files)})"
            assert connection.execute(query).fetchall() == [(rows,)]
    assert content_hash(paths[0]) == content_hash(paths[1])
