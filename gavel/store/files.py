"""Files that appear whole or not at all, and where each table's Parquet stands."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from gavel.errors import StoreError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it is flushed and renamed to `path`.

    On any error, or when the process is killed, `path` keeps what it held before.

    Raises:
        StoreError: the disk is full or the folder cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for abandoned in path.parent.glob(f".{path.name}.*.tmp"):
            abandoned.unlink(missing_ok=True)
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except (OSError, duckdb.IOException) as error:
        if (sentence := write_failure(error)) is None:
            raise
        raise StoreError(f"{path}: {sentence}; nothing was replaced") from error
    finally:
        temporary.unlink(missing_ok=True)


def write_failure(error: Exception) -> str | None:
    """What to tell a person about `error`, or None where it is not a failure to write."""
    number = getattr(error, "errno", None)
    if number == errno.ENOSPC or "No space left on device" in str(error):
        return "the disk is full; free some space and run again"
    if number in (errno.EACCES, errno.EROFS, errno.EPERM):
        return f"cannot be written ({error}); make the folder writable and run again"
    return None


class Store:
    """Where every table's Parquet stands: `{root}/{stage}/{name}/{day}[/{shard}].parquet`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def table(self, name: str, day: str | None = None, shard: str | None = None) -> Path:
        """The path of one partition of table `name`, such as `chat/verdicts`."""
        parts = [part for part in (day, shard) if part is not None]
        return (
            self.root.joinpath(name, *parts[:-1], f"{parts[-1]}.parquet")
            if parts
            else (self.root / f"{name}.parquet")
        )

    def existing(self, name: str, day: str | None = None, shard: str | None = None) -> Path:
        """The same path, which must be there.

        Raises:
            StoreError: it is not, with the asset and partition to materialise.
        """
        path = self.table(name, day, shard)
        if not path.exists():
            partition = "|".join(part for part in (day, shard) if part is not None)
            raise StoreError(
                f"{path} is missing; materialise the asset {name}"
                + (f", partition {partition}, first" if partition else " first")
            )
        return path

    def document(self, name: str) -> Path:
        """The path of a small JSON document, such as `chat/rubric`."""
        return self.root / f"{name}.json"

    def ledger(self, scope: str) -> Path:
        """The folder of the ledger of `scope` (for judging, task/day)."""
        return self.root / "ledger" / scope
