"""Cloud Storage: the files of a bucket, worked on through copies in a folder of this machine.

The bucket holds the truth. What is read is first brought here, where the bucket's generation is another than
that of the copy; what is written goes up whole, on condition that the bucket still holds what this process saw,
and only then appears here. A copy is told by its path: `{cache}/{bucket}/{object}`. Copies may be deleted
whenever no run is at work, all but the ledger's `*.tail`, which hold answers on their way up.
"""

from __future__ import annotations

import datetime as dt
import fcntl
import os
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import pyarrow as pa
import pyarrow.fs

from gavel.errors import StoreError, missing_extra

SCHEME = "gs://"
CACHE_VARIABLE = "GAVEL_CACHE"
"""Environment variable naming the folder of the copies (default: ~/.cache/gavel)."""
EMULATOR_VARIABLE = "STORAGE_EMULATOR_HOST"
"""Environment variable naming a server to use in place of Cloud Storage, as Google's own libraries read it."""

PATIENCE = 30.0
"""Seconds within which a request is tried again while the bucket cannot be reached or is overloaded."""
_TIMEOUT = (5.0, 60.0)
"""Seconds to connect, and to wait for more of a reply."""
_AT_ONCE = 8
_OVERWRITTEN = 3
"""How often an object is fetched that another overwrites meanwhile."""
_RENDERED = ".html"
"""Pages are rendered from tables and hold nothing of their own: the last one written stands."""

_seen: dict[Path, int] = {}
"""The generation that this process last saw of an object, by its copy's path; 0 where there was none."""


def is_bucket(place: str) -> bool:
    """Whether `place` is in Cloud Storage."""
    return place.startswith(SCHEME)


def cache_folder() -> Path:
    """The folder of all copies."""
    return Path(os.environ.get(CACHE_VARIABLE) or Path.home() / ".cache" / "gavel").absolute()


def copy_of(uri: str) -> Path:
    """Where the copy of `uri` stands, which need not have been brought."""
    return cache_folder() / uri.removeprefix(SCHEME)


def shown(path: Path) -> str:
    """`path` as a person knows it: a copy by its address in the bucket."""
    bucket = bucket_of(path)
    return str(path) if bucket is None else f"{SCHEME}{bucket.name}/{bucket.object_name(path)}"


def bucket_of(path: Path) -> Bucket | None:
    """The bucket whose copy `path` is; None where it is a file of this machine alone."""
    cache = str(cache_folder())
    if not str(path).startswith(cache + os.sep):
        return None
    return Bucket(path.parts[len(Path(cache).parts)])


def filesystem_of(uri: str) -> tuple[pa.fs.FileSystem, str]:
    """The filesystem of a URI, for reading where it stands, and the path in it.

    Of Cloud Storage it gives up within the same time as everything here: by itself it would try for a quarter of
    an hour.
    """
    if not is_bucket(uri) or "?" in uri or "@" in uri:
        return pa.fs.FileSystem.from_uri(uri)  # type: ignore[no-any-return]
    options: dict[str, Any] = {"retry_time_limit": dt.timedelta(seconds=PATIENCE)}
    if emulator := os.environ.get(EMULATOR_VARIABLE):
        parts = urlsplit(emulator if "://" in emulator else f"http://{emulator}")
        options |= {"anonymous": True, "scheme": parts.scheme, "endpoint_override": parts.netloc}
    return pa.fs.GcsFileSystem(**options), uri.removeprefix(SCHEME)


def put(file: Path, path: Path) -> None:
    """Rename `file` to `path`; of a copy, the object in the bucket is replaced first. Raises StoreError.

    A hidden file is on its way to its name, and stays here.
    """
    if (bucket := bucket_of(path)) is None or path.name.startswith("."):
        file.replace(path)
    else:
        bucket.put(file, path)


def remove(path: Path) -> None:
    """Delete `path`; of a copy, the object in the bucket first. Raises StoreError."""
    if (bucket := bucket_of(path)) is None:
        path.unlink()
    else:
        bucket.remove(path)


class Bucket:
    """One bucket.

    Every method raises StoreError where the bucket cannot be reached, is not there, or is closed to us.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.root = cache_folder() / name

    def object_name(self, path: Path) -> str:
        """The name in the bucket of the object whose copy is `path`."""
        return path.relative_to(self.root).as_posix()

    def bring(self, path: Path) -> None:
        """Bring the files that are called `path` up to their last suffix: a table and its manifest."""
        stem = path.with_suffix("")
        blobs = self._listed(f"{self.object_name(stem)}.", delimiter="/")
        self._bring(blobs)
        self._drop(
            stem.parent.glob(f"{_literal(stem.name)}.*"), {self.root / b.name for b in blobs}
        )

    def bring_folder(
        self, folder: Path, suffix: str = "", since: str = "", deep: bool = False
    ) -> None:
        """Bring the files in `folder` that end in `suffix` and are not before `since` by name.

        Copies of what is no longer there go, unless the folder is in use: whoever has it locked may rely on them.
        """
        prefix = f"{self.object_name(folder)}/"
        blobs = self._listed(
            prefix, start_offset=prefix + since, delimiter=None if deep else "/", suffix=suffix
        )
        self._bring(blobs)
        if not folder.is_dir():
            return
        handle = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            there = {self.root / blob.name for blob in blobs}
            copies = (folder.rglob if deep else folder.glob)(f"*{suffix}")
            self._drop((c for c in copies if self.object_name(c) >= prefix + since), there)
        except BlockingIOError:
            pass
        finally:
            os.close(handle)

    def put(self, file: Path, path: Path) -> None:
        """Make `file` the object of `path`, then the copy at `path`.

        Raises:
            StoreError: another has written the object since this process looked.
        """
        from google.api_core.exceptions import PreconditionFailed

        writer = uuid.uuid4().hex
        with _told(shown(path)):
            blob = _client(os.getpid()).bucket(self.name).blob(self.object_name(path))
            blob.metadata = {"writer": writer}
            expected = None if path.suffix == _RENDERED else self._generation_seen(path)
            try:
                blob.upload_from_filename(
                    str(file), if_generation_match=expected, timeout=_TIMEOUT, retry=_retry()
                )
            except PreconditionFailed as error:
                # An upload whose reply was lost is sent again, and then meets itself.
                blob.reload(timeout=_TIMEOUT, retry=_retry())
                if (blob.metadata or {}).get("writer") != writer:
                    raise StoreError(
                        f"{shown(path)}: another run has written it since this one looked; its content stands, "
                        "this run's does not; run again to see whether anything is left to do"
                    ) from error
        file.replace(path)
        self._note(path, blob.generation)

    def remove(self, path: Path) -> None:
        """Delete the object of `path`, then its copy; it may be gone already."""
        with _told(shown(path)), _may_be_gone():
            blob = _client(os.getpid()).bucket(self.name).blob(self.object_name(path))
            blob.delete(timeout=_TIMEOUT, retry=_retry())
        self._forget(path)

    def _listed(self, prefix: str, suffix: str = "", **options: Any) -> list[Any]:
        with _told(f"{SCHEME}{self.name}/{prefix}".rpartition("/")[0]):
            found = _client(os.getpid()).list_blobs(
                self.name,
                prefix=prefix,
                fields="items(name,generation,size),nextPageToken",
                timeout=_TIMEOUT,
                retry=_retry(),
                **options,
            )
            return [b for b in found if b.name.endswith(suffix) and not b.name.endswith("/")]

    def _bring(self, blobs: Iterable[Any]) -> None:
        changed = []
        for blob in blobs:
            path = self.root / blob.name
            _seen[path] = blob.generation
            if _noted(path) != blob.generation:
                changed.append(blob)
        if len(changed) == 1:
            self._download(changed[0])
        elif changed:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                list(pool.map(self._download, changed))

    def _download(self, blob: Any) -> None:
        """Bring what the object holds now, which may be newer than what was listed, or nothing any more."""
        path = self.root / blob.name
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
        try:
            for _ in range(_OVERWRITTEN):
                with _told(shown(path)), _may_be_gone():
                    blob.download_to_filename(str(temporary), timeout=_TIMEOUT, retry=_retry())
                    temporary.replace(path)
                    self._note(path, blob.generation)
                    return
                # A generation that is gone may have been replaced by another.
                blob = _client(os.getpid()).bucket(self.name).blob(blob.name)
                with _told(shown(path)), _may_be_gone():
                    blob.reload(timeout=_TIMEOUT, retry=_retry())
                if blob.generation is None:
                    break
            self._forget(path)
        finally:
            temporary.unlink(missing_ok=True)

    def _drop(self, copies: Iterable[Path], there: set[Path]) -> None:
        """Remove the copies of objects that are gone; what was never brought or sent is no copy."""
        for path in list(copies):
            if path not in there and _note_of(path).exists():
                self._forget(path)

    def _generation_seen(self, path: Path) -> int:
        seen = _seen.get(path)
        return (_noted(path) or 0) if seen is None else seen

    def _note(self, path: Path, generation: int) -> None:
        """Note of which generation the copy is, with the marks of the very file that is meant."""
        _seen[path] = generation
        note = _note_of(path)
        unfinished = note.with_name(f"{note.name}.{uuid.uuid4().hex}.tmp")
        unfinished.write_bytes(orjson.dumps([generation, *_marks(path)]))
        unfinished.replace(note)

    def _forget(self, path: Path) -> None:
        _seen[path] = 0
        path.unlink(missing_ok=True)
        _note_of(path).unlink(missing_ok=True)


def _note_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.generation")


def _marks(path: Path) -> tuple[int, int, int]:
    stat = path.stat()
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _noted(path: Path) -> int | None:
    """The generation that the copy at `path` is of; None where it is missing, or not the file that was noted."""
    try:
        generation, *marks = orjson.loads(_note_of(path).read_bytes())
        return int(generation) if tuple(marks) == _marks(path) else None
    except (OSError, ValueError, TypeError):
        return None


def _literal(name: str) -> str:
    """`name` as a glob that matches itself alone."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)


@lru_cache(maxsize=1)
def _client(process: int) -> Any:
    """One a process: a child that was forked must not use its parent's connections."""
    from google.cloud import storage

    # No request here is about a project, which credentials of a person may not name.
    return storage.Client(project=None)


def _retry() -> Any:
    from google.cloud.storage.retry import DEFAULT_RETRY

    return DEFAULT_RETRY.with_timeout(PATIENCE)


@contextmanager
def _may_be_gone() -> Iterator[None]:
    """Of an object that another may delete at any time."""
    from google.api_core.exceptions import NotFound

    with suppress(NotFound):
        yield


@contextmanager
def _told(place: str) -> Iterator[None]:
    """Tell in one sentence why `place` cannot be used."""
    try:
        from google.api_core.exceptions import Forbidden, GoogleAPIError, NotFound, Unauthorized
        from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
        from google.cloud import storage  # noqa: F401
        from requests.exceptions import RequestException
    except ImportError as error:
        raise missing_extra(f"files in Cloud Storage ({place})", "gcp") from error
    try:
        yield
    except NotFound as error:
        raise StoreError(
            f"{place}: there is no such bucket; make it, or correct the name"
        ) from error
    except (Forbidden, Unauthorized, DefaultCredentialsError) as error:
        raise StoreError(
            f"{place}: may not be used ({_short(error)}); accepted: credentials by "
            "GOOGLE_APPLICATION_CREDENTIALS or a workload identity, with the role Storage Object User on "
            "the bucket"
        ) from error
    except (GoogleAPIError, GoogleAuthError, RequestException, ConnectionError) as error:
        raise StoreError(
            f"{place}: cannot be reached within {PATIENCE:.0f} s ({_short(error)}); what was there stays as it "
            "was; run again when Cloud Storage is back"
        ) from error


def _short(error: Exception) -> str:
    return " ".join(str(error.__cause__ or error).split())[:200]
