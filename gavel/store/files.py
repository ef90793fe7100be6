"""Files that appear whole or not at all, and where each table's Parquet stands: here, or in a bucket."""

from __future__ import annotations

import errno
import fcntl
import os
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb

from gavel.errors import StoreError
from gavel.store.bucket import bucket_of, put, remove, shown


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it is flushed and renamed to `path`.

    On any error, or when the process is killed, `path` keeps what it held before. Two writers of one
    path do not disturb each other: the one that ends last stands. Of a path in a bucket the object is replaced
    first, and of two writers who saw the same one, the first stands.

    Raises:
        StoreError: the disk is full or the folder cannot be written; the bucket cannot be reached, or another has
            written the object meanwhile.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"{path.parent}: cannot be written ({error.strerror}: the folder cannot be made); nothing was; "
            "accepted: a place on a writable disk, see `store` in suite.yaml"
        ) from error
    try:
        for other in path.parent.glob(f".{path.name}.*.tmp"):
            _unlink_abandoned(other)
        with temporary.open("xb") as held:
            # The lock goes with the process, so that the next writer knows what a killed one left.
            fcntl.flock(held, fcntl.LOCK_EX)
            yield temporary
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            put(temporary, path)
    except (OSError, duckdb.Error) as error:
        if (sentence := write_failure(error)) is None:
            raise
        raise StoreError(f"{path}: {sentence}; nothing was replaced") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def check_folder(folder: Path) -> None:
    """Check that files can be written into `folder`, which need not be there yet. Raises StoreError."""
    there = next(place for place in (folder, *folder.parents) if place.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        what = "is no folder" if not there.is_dir() else "is not writable"
        raise StoreError(
            f"{folder}: nothing can be stored there, since {there} {what}; accepted: a folder on a writable disk, "
            "see `store` and `warehouse` in suite.yaml"
        )


def write_text(path: Path, text: str) -> None:
    """Write `text` as UTF-8 to `path`, whole, with its line ends as they are.

    Raises:
        StoreError: see `replacing`.
    """
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="")


def keep_only(folder: Path, suffix: str, stems: Collection[str]) -> None:
    """Delete the files in `folder` that end in `suffix`, of a bucket its objects, save those named in `stems`."""
    if (bucket := bucket_of(folder)) is not None:
        bucket.bring_folder(folder, suffix)
    for path in folder.glob(f"*{suffix}"):
        if path.stem not in stems:
            remove(path)


def _unlink_abandoned(temporary: Path) -> None:
    try:
        with temporary.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            temporary.unlink(missing_ok=True)
    except (BlockingIOError, FileNotFoundError):
        pass  # another writer is at work on it, or has just ended


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Hold `lock`, made if need be, against every other process; wait for whoever holds it now."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


_DISK_FULL = ("No space left on device", "failed to offload data block")
"""The words of the system, and of DuckDB where it cannot spill."""


def write_failure(error: Exception) -> str | None:
    """What to tell a person about `error`, or None where it is not a failure to write."""
    number = getattr(error, "errno", None)
    if number in (errno.ENOSPC, errno.EDQUOT) or any(words in str(error) for words in _DISK_FULL):
        return "the disk is full; free some space and run again"
    if number == errno.EFBIG or "File too large" in str(error):
        return "the file is larger than this system lets a file be (ulimit -f); raise the limit and run again"
    if number in (
        errno.EACCES,
        errno.EROFS,
        errno.EPERM,
        errno.ENOTDIR,
        errno.EEXIST,
        errno.EISDIR,
    ):
        return f"cannot be written ({error}); make the folder writable and run again"
    return None


class Store:
    """Where every table's Parquet stands: `{root}/{stage}/{name}/{day}[/{shard}].parquet`.

    Where `root` is the copy of a folder in a bucket, each method brings what the bucket holds now under the
    path it returns.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._bucket = bucket_of(root)
        self._looked: dict[str, str] = {}

    def table(self, name: str, day: str | None = None, shard: str | None = None) -> Path:
        """The path of one partition of table `name`, such as `chat/verdicts`."""
        parts = [part for part in (day, shard) if part is not None]
        path = (
            self.root.joinpath(name, *parts[:-1], f"{parts[-1]}.parquet")
            if parts
            else (self.root / f"{name}.parquet")
        )
        if self._bucket is not None:
            self._bucket.bring(path)
        return path

    def existing(self, name: str, day: str | None = None, shard: str | None = None) -> Path:
        """The same path, which must be there.

        Raises:
            StoreError: it is not, with the asset and partition to materialise.
        """
        path = self.table(name, day, shard)
        if not path.exists():
            partition = "|".join(part for part in (day, shard) if part is not None)
            raise StoreError(
                f"{shown(path)} is missing; materialise the asset {name}"
                + (f", partition {partition}, first" if partition else " first")
            )
        return path

    def document(self, name: str) -> Path:
        """The path of a small JSON document, such as `chat/rubric`."""
        path = self.root / f"{name}.json"
        if self._bucket is not None and not self._has_looked(name):
            self._bucket.bring(path)
        return path

    def look(self, name: str, since: str = "", *, by_shard: bool = False) -> None:
        """Ask a bucket at once for all documents of table `name` from day `since` on, and then no more for any.

        One by one, as `document` asks, the manifests of a look-back window would take a minute.
        """
        if self._bucket is not None and self._looked.get(name, "~") > since:
            self._bucket.bring_folder(self.root / name, ".json", since, deep=by_shard)
            self._looked[name] = since

    def documents(self, name: str) -> list[Path]:
        """The documents of every day of table `name`, in order."""
        self.look(name)
        return sorted((self.root / name).glob("*.json"))

    def _has_looked(self, name: str) -> bool:
        return any(
            name.startswith(f"{table}/") and name[len(table) + 1 :] >= since
            for table, since in self._looked.items()
        )

    def tables(self, name: str) -> list[Path]:
        """Every day of table `name` that is there, in order."""
        folder = self.root / name
        if self._bucket is not None:
            self._bucket.bring_folder(folder)
        return sorted(folder.glob("*.parquet"))

    def ledger(self, scope: str) -> Path:
        """The folder of the ledger of `scope` (for judging, task/day)."""
        folder = self.root / "ledger" / scope
        if self._bucket is not None:
            self._bucket.bring_folder(folder)
        return folder
