"""Dealing a task's records out to shards, round robin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gavel.logs.schema import SHARD
from gavel.store.tables import write_batches


def shard_rows(count: int, shards: int, shard: int) -> range:
    """Which of `count` records shard number `shard` of `shards` holds: i, i+N, i+2N, ..."""
    if not 0 <= shard < shards:
        raise ValueError(f"shard is {shard}; accepted: 0 to {shards - 1}")
    return range(shard, count, shards)


def write_shard(clean_path: Path, task: str, shards: int, shard: int, out_path: Path) -> int:
    """Write every `shards`-th record of `task`, from number `shard` on, to `out_path` (SHARD).

    The order is that of `clean_path`; memory holds a few row groups. Returns the number of rows.

    Raises:
        StoreError: the table cannot be written.
    """
    with pq.ParquetFile(clean_path) as records:
        dealt = _dealt(records, task, shards, shard)
        return write_batches(out_path, SHARD, _numbered(dealt, shard))


def _dealt(records: pq.ParquetFile, task: str, shards: int, shard: int) -> Iterator[pa.RecordBatch]:
    """The shard's records, a batch for each row group of `records`."""
    seen = 0
    for group in range(records.num_row_groups):
        table = records.read_row_group(group)
        of_task = np.flatnonzero(pc.equal(table["task"], task))
        before, seen = seen, seen + len(of_task)
        # The round goes on where it stood at the end of the group before.
        ours = shard_rows(seen, shards, shard)[len(shard_rows(before, shards, shard)) :]
        rows = of_task[np.array(ours, np.int64) - before]
        yield from table.take(pa.array(rows)).combine_chunks().to_batches()


def _numbered(batches: Iterator[pa.RecordBatch], shard: int) -> Iterator[pa.RecordBatch]:
    before = 0
    for batch in batches:
        numbers = pa.array(range(before, before + batch.num_rows), pa.int64())
        before += batch.num_rows
        shard_column = pa.repeat(pa.scalar(shard, pa.int32()), batch.num_rows)
        yield pa.RecordBatch.from_arrays([*batch.columns, shard_column, numbers], schema=SHARD)
