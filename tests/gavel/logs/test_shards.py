"""Shards are the records of a task, each once, in order."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavel.logs.schema import SHARD
from gavel.logs.shards import shard_rows, write_shard
from gavel.logs.validity import SHARD_VALID
from gavel.store import tables

from .conftest import TASKS, Ingest, row


@given(st.integers(0, 500), st.integers(1, 20))
def test_every_row_is_in_one_shard(count: int, shards: int) -> None:
    dealt = [shard_rows(count, shards, shard) for shard in range(shards)]
    assert sorted(row for rows in dealt for row in rows) == list(range(count))
    assert max(map(len, dealt)) - min(map(len, dealt)) <= 1


@pytest.mark.parametrize("shard", [-1, 4])
def test_a_shard_that_does_not_exist(shard: int) -> None:
    with pytest.raises(ValueError, match="accepted: 0 to 3"):
        shard_rows(10, 4, shard)


@pytest.mark.parametrize("shards", [1, 4, 7])
@pytest.mark.parametrize("group", [3, 10_000])
def test_shards_are_the_tasks_records(
    ingest: Ingest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shards: int, group: int
) -> None:
    monkeypatch.setattr(tables, "ROW_GROUP", 5)
    rows = [row(record_id=i, task=TASKS[i % 3 == 0 or i > 60]) for i in range(80)]
    records = pq.read_table(ingest(rows).folder / "clean.parquet")
    clean_path = tmp_path / "clean.parquet"
    pq.write_table(records, clean_path, row_group_size=group)
    for task in TASKS:
        whole = [r for r in records.to_pylist() if r["task"] == task]
        for shard in range(shards):
            out = tmp_path / f"{task}-{shard}.parquet"
            written = write_shard(clean_path, task, shards, shard, out)
            table = pq.read_table(out)
            expected = [
                {**record, "shard": shard, "shard_row": i}
                for i, record in enumerate(whole[shard::shards])
            ]
            assert table.schema.equals(SHARD)
            assert table.to_pylist() == expected
            assert written == len(expected)
            SHARD_VALID.validate(pl.read_parquet(out))


def test_a_task_without_records_has_empty_shards(ingest: Ingest, tmp_path: Path) -> None:
    folder = ingest([row()]).folder
    assert write_shard(folder / "clean.parquet", "translation", 4, 0, tmp_path / "s.parquet") == 0
    assert pq.read_table(tmp_path / "s.parquet").equals(
        pa.Table.from_batches([], SHARD), check_metadata=True
    )
