"""The ledger: every answer ever received, kept; checkpoint, cache and audit trail in one.

Answers of one scope (for judging, task/day) are immutable Parquet *segments* in one folder. The answers
not yet in a segment stand in an *open tail*: a file of JSON lines, written one answer at a time
and held by an exclusive lock. A killed process loses nothing it has received: the next writer finds
the tail unlocked and seals it into a segment. Two runs of the same scope have a tail each.

Of a ledger in a bucket, tails and locks stand beside the copies on this machine, and segments go up in
mini-batches. A killed process still loses nothing; a lost machine loses the answers since the last
segment, which are asked for again.
"""

from __future__ import annotations

import fcntl
import math
import os
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import IO

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gavel.errors import StoreError
from gavel.inference.request import Answer, Failure
from gavel.store.bucket import bucket_of, remove, shown
from gavel.store.files import write_failure
from gavel.store.tables import quoted, session, write_batches, write_query

SCHEMA = pa.schema(
    [
        ("request_hash", pa.string()),
        ("attempt", pa.int32()),
        ("text", pa.string()),
        ("finish_reason", pa.string()),
        ("refusal", pa.string()),
        ("failure", pa.string()),
        ("detail", pa.string()),
        ("retries", pa.list_(pa.string())),
        ("prompt_tokens", pa.int64()),
        ("completion_tokens", pa.int64()),
        ("latency_ms", pa.float64()),
        ("model_revision", pa.string()),
        ("logprobs", pa.string()),
        ("answered_at", pa.timestamp("us", tz="UTC")),
        ("worker", pa.string()),
        ("run_id", pa.string()),
    ]
)
"""One row an answer. `worker` is the shard or stage that asked, `run_id` the run it asked in."""

_ANSWER_FIELDS = [field.name for field in fields(Answer)]
_SEGMENT_ROWS = 5_000
_ROWS_AT_RISK, _SECONDS_AT_RISK = 1_000, 30.0
"""Answers, and seconds, between two segments of a ledger in a bucket: what the loss of a machine can cost."""
ON_ITS_WAY: tuple[Failure, ...] = ("timeout", "transport")
"""Failures that tell nothing of the question: another time there may be an answer."""


class Ledger:
    """The ledger of one scope, open for one writer. Use as `with Ledger.open(...) as ledger`."""

    def __init__(self, folder: Path, run_id: str, worker: str) -> None:
        self.folder = folder
        self._path, self._tail = _locked_tail(folder)
        self.run_id = run_id
        self._worker = worker
        self._lines = 0
        self._sealed_at = time.monotonic()
        in_bucket = bucket_of(folder) is not None
        self._most_rows = _ROWS_AT_RISK if in_bucket else _SEGMENT_ROWS
        self._most_seconds = _SECONDS_AT_RISK if in_bucket else math.inf

    @classmethod
    @contextmanager
    def open(cls, folder: Path, run_id: str, worker: str) -> Iterator[Ledger]:
        """Recover what killed writers left, open a tail, and seal it on the way out.

        Raises:
            StoreError: another process asks as this `worker`; the disk is full or the folder cannot be
                written, and a tail not sealed stays.
        """
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        with _scope_lock(folder, fcntl.LOCK_SH), _worker_lock(folder, worker):
            with writing(folder):
                recover(folder)
                ledger = cls(folder, run_id, worker)
            with ledger._tail:
                try:
                    yield ledger
                finally:
                    ledger.seal()
                    ledger._path.unlink(missing_ok=True)

    def append(self, answers: Iterable[Answer]) -> None:
        """Keep `answers`; when this returns they outlive the process.

        Raises:
            StoreError: the disk is full.
        """
        for answer in answers:
            row = {name: getattr(answer, name) for name in _ANSWER_FIELDS}
            row["worker"] = self._worker
            row["run_id"] = self.run_id
            line = orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
            with writing(self._path):
                # A write may take a part only; on a disk that is nearly full the rest then fails.
                while line:
                    line = line[self._tail.write(line) :]
            self._lines += 1
        if (
            self._lines >= self._most_rows
            or time.monotonic() - self._sealed_at >= self._most_seconds
        ):
            self.seal()

    def seal(self) -> None:
        """Move the tail's answers into a segment."""
        if self._lines:
            _seal(self._tail, self._path.stem, self.folder)
            self._tail.seek(0)
            self._tail.truncate()
            self._lines = 0
        self._sealed_at = time.monotonic()

    def answered(self) -> set[tuple[str, int]]:
        """The (request_hash, attempt) of every answer in the segments, this writer's own included.

        A request that failed on its way has none: it is asked again whenever it is needed again.
        """
        self.seal()
        known: set[tuple[str, int]] = set()
        for segment in segments(self.folder):
            keys = pq.read_table(segment, columns=["request_hash", "attempt", "failure"])
            keys = keys.filter(pc.invert(pc.is_in(keys["failure"], pa.array(ON_ITS_WAY))))
            known.update(
                zip(keys["request_hash"].to_pylist(), keys["attempt"].to_pylist(), strict=True)
            )
        return known


def segments(folder: Path) -> list[Path]:
    """The Parquet segments of the ledger in `folder`, in a fixed order."""
    return sorted(folder.glob("*.parquet"))


def recover(folder: Path) -> None:
    """Seal the tails whose writer is gone. Several processes may do so at once."""
    for path in sorted(folder.glob("*.tail")):
        # Its writer, or another that recovers, may remove it at any time until we hold the lock.
        with suppress(FileNotFoundError, BlockingIOError), path.open("rb+") as tail:
            fcntl.flock(tail, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(tail.fileno()).st_nlink:
                _seal(tail, path.stem, folder)
                path.unlink()


def compact(folder: Path) -> bool:
    """Rewrite the segments as one, each answer once, in the order of its key.

    Does nothing while a ledger of this scope is open, whose reader relies on the segments it has listed.
    Cut short, it leaves old and new segments together, whose repeated rows are equal. Returns
    whether the scope is compact now.
    """
    if len(segments(folder)) < 2:
        return True
    try:
        with _scope_lock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB):
            old = segments(folder)
            target = folder / f"compacted-{uuid.uuid4().hex}.parquet"
            with session(spill=folder / ".spill") as connection:
                query = f"{latest(old)} ORDER BY request_hash, attempt"
                write_query(target, connection, query, SCHEMA)
            for segment in old:
                remove(segment)
    except BlockingIOError:
        return False
    return True


def latest(files: Sequence[Path], attempt: int | None = None) -> str:
    """SQL that selects each answer of `files` once, should a key be there twice.

    A request that failed on its way may have been asked again: its answer counts, else the first received.

    With `attempt`, only the answers of that attempt.
    """
    return (
        f"SELECT * EXCLUDE (filename, file_row_number) FROM {stored(files)} "
        f"SEMI JOIN ({places(files, attempt)}) USING (filename, file_row_number)"
    )


def places(files: Sequence[Path], attempt: int | None = None) -> str:
    """SQL that selects where the answers of `latest` stand: request_hash, filename, file_row_number.

    They are decided on by the keys alone: a window over whole rows would hold every text.
    """
    where = "" if attempt is None else f"WHERE attempt = {attempt} "
    failed = f"coalesce(failure IN {ON_ITS_WAY}, false)"
    return (
        "SELECT request_hash, first[1] AS filename, first[2] AS file_row_number FROM (SELECT request_hash, "
        f"arg_min((filename, file_row_number), ({failed}, answered_at, run_id, filename)) AS first "
        f"FROM {stored(files)} {where}GROUP BY request_hash, attempt)"
    )


def stored(files: Sequence[Path]) -> str:
    """SQL for every row of `files`, with its filename and file_row_number."""
    if files:
        return f"read_parquet({quoted(*files)}, filename = true, file_row_number = true)"
    columns = [f"NULL::{_sql(field.type)} AS {field.name}" for field in SCHEMA]
    columns += ["NULL::VARCHAR AS filename", "NULL::BIGINT AS file_row_number"]
    return f"(SELECT {', '.join(columns)} WHERE false)"


def _sql(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return "VARCHAR[]"
    names = {"string": "VARCHAR", "int32": "INTEGER", "int64": "BIGINT", "double": "DOUBLE"}
    return names.get(str(kind), "TIMESTAMPTZ")


@contextmanager
def _scope_lock(folder: Path, kind: int) -> Iterator[None]:
    """Shared by all who have the scope's ledger open, exclusive to whoever compacts it."""
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, kind)
        yield
    finally:
        os.close(lock)


@contextmanager
def _worker_lock(folder: Path, worker: str) -> Iterator[None]:
    """Held by the one process that asks as `worker`: a second would ask everything once more."""
    path = folder / f"{worker.replace('/', '_')}.lock"
    while True:
        with path.open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise StoreError(
                    f"{shown(folder)}: another run is asking for {worker} already; wait until it has ended and "
                    "run again: its answers are used"
                ) from error
            # Whoever held it before may have removed it since it was opened: then it is no one's.
            if os.fstat(lock.fileno()).st_nlink:
                try:
                    yield
                finally:
                    path.unlink()
                return


def _locked_tail(folder: Path) -> tuple[Path, IO[bytes]]:
    """A new tail that no other writer can take for an abandoned one: named so only once locked."""
    path = folder / f"{uuid.uuid4().hex}.tail"
    unnamed = path.with_suffix(".opening")
    tail = unnamed.open("w+b", buffering=0)
    fcntl.flock(tail, fcntl.LOCK_EX)
    unnamed.rename(path)
    return path, tail


def _seal(tail: IO[bytes], name: str, folder: Path) -> None:
    """Write a tail's whole lines as a segment.

    A line that a crash cut short or garbled was never promised: its request is asked again.
    """
    tail.seek(0)
    rows = []
    for line in tail.read().split(b"\n")[:-1]:
        with suppress(orjson.JSONDecodeError):
            row = orjson.loads(line)
            row["answered_at"] = int(row["answered_at"] * 1e6)
            rows.append(row)
    if rows:
        segment = folder / f"{name}-{uuid.uuid4().hex[:8]}.parquet"
        write_batches(segment, SCHEMA, [pa.RecordBatch.from_pylist(rows, schema=SCHEMA)])


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Tell in one sentence that the disk is full, or that the ledger cannot be written."""
    try:
        yield
    except OSError as error:
        if (sentence := write_failure(error)) is None:
            raise
        raise StoreError(f"{path}: {sentence}; the answers kept so far stay") from error
