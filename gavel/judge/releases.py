"""Released rubrics: what was judged with, kept, so that a version can never mean two contents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import orjson

from gavel.errors import RubricError, StoreError
from gavel.judge.rubric import Rubric, compile_rubric
from gavel.store.files import Store, replacing

_READABLE = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS


@dataclass(frozen=True)
class Drift:
    """A file whose content differs from what was released under the same version."""

    file: str
    released: str
    found: str

    def __str__(self) -> str:
        return f"{self.file}: released {self.released}, found {self.found}"


def release(store: Store, rubric: Rubric) -> list[Drift]:
    """Make `rubric` the current release of its task, unless it drifted from its own version.

    Every version is kept. Returns the files that drifted; when there are any, nothing is released.
    """
    if drifted := drift(store, rubric):
        return drifted
    content = {"task": rubric.task, "version": rubric.version, "files": dict(rubric.files)}
    current = _document(store, rubric.task)
    try:
        other = release_state(store, rubric.task) != rubric.stamp
    except RubricError:
        # One that cannot be read is replaced.
        other = True
    number = release_number(store, rubric.task) + other
    for path, found in (
        (_document(store, rubric.task, rubric.version), content),
        (current, {**content, "number": number}),
    ):
        with replacing(path) as temporary:
            temporary.write_bytes(orjson.dumps(found, option=_READABLE))
    return []


def drift(store: Store, rubric: Rubric) -> list[Drift]:
    """The files of `rubric` that differ from what was released under its version; none where nothing was."""
    kept = _document(store, rubric.task, rubric.version)
    return _drift(_read(kept), rubric) if kept.exists() else []


def drift_sentence(rubric: Rubric, drifted: Sequence[Drift]) -> str:
    """What drifted, and what to do."""
    files = "; ".join(map(str, drifted))
    return (
        f"version {rubric.version} of {rubric.task} was released with another content ({files}); raise `version` "
        "in rubric.yaml, or put the old content back; until then the released content stays in force"
    )


def released_rubric(store: Store, task: str) -> Rubric:
    """The current release of `task`.

    Raises:
        StoreError: none was released yet.
    """
    path = _document(store, task)
    if not path.exists():
        raise StoreError(f"{path} is missing; materialise the asset {task}/rubric first")
    return _read(path)


def release_state(store: Store, task: str) -> str | None:
    """The task, version and hash of the current release; None where none was released."""
    if not _document(store, task).exists():
        return None
    return _read(_document(store, task)).stamp


def release_number(store: Store, task: str) -> int:
    """How often another rubric of `task` was released, which tells a release from an equal one before it."""
    try:
        return int(orjson.loads(_document(store, task).read_bytes())["number"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def _document(store: Store, task: str, version: int | None = None) -> Path:
    name = "current" if version is None else f"version-{version}"
    return store.document(f"{task}/rubric/{name}")


def _read(path: Path) -> Rubric:
    try:
        return _compiled(path.read_bytes(), str(path))
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise RubricError(f"{path}: is not a released rubric ({error})") from error


@lru_cache(maxsize=32)
def _compiled(content: bytes, origin: str) -> Rubric:
    """Kept, since every step of a run reads its rubric and the YAML of long label lists takes 50 ms."""
    released = orjson.loads(content)
    return compile_rubric(released["task"], released["files"], origin)


def _drift(released: Rubric, found: Rubric) -> list[Drift]:
    before, now = released.file_hashes, found.file_hashes
    return [
        Drift(name, before.get(name, "(absent)"), now.get(name, "(absent)"))
        for name in sorted(before.keys() | now.keys())
        if before.get(name) != now.get(name)
    ]
