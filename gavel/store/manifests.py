"""Manifests: small JSON notes beside the tables, which say what a partition was made from.

They are what decides whether a partition is stale, so that deciding never reads a table. A manifest is written
after its tables, whole or not at all; one that cannot be read counts as absent, and its partition as never made.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from gavel.store.files import replacing

UNFINISHED = "unfinished"
"""The part of a signature that no unit is wanted with: some of its tables have been replaced."""


@dataclass(frozen=True)
class Manifest:
    """What one unit of work was made from, and what came of it.

    `signature` names everything that determines the content, part by part; `made_by` is the run;
    `made_at` is in ISO 8601, UTC; `figures` is what a decision may need to know of the result.
    """

    signature: Mapping[str, str]
    made_by: str
    made_at: str = field(default_factory=lambda: dt.datetime.now(dt.UTC).isoformat())
    figures: Mapping[str, Any] = field(default_factory=dict)


def signature_hash(signature: Mapping[str, str]) -> str:
    """16 hex digits that change with any part of a signature."""
    text = orjson.dumps(dict(signature), option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(text).hexdigest()[:16]


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Write `manifest` to `path`."""
    with replacing(path) as temporary:
        temporary.write_bytes(orjson.dumps(asdict(manifest), option=orjson.OPT_INDENT_2))


def outdate(path: Path, signature: Mapping[str, str]) -> None:
    """Mark the manifest at `path` before a table of its unit is replaced by one of another `signature`.

    `signature` may be a part of the unit's. Should the run end before the unit is whole, and what it was made from
    become again what it was, the unit is stale all the same. Who made it and when stay: a retry asks for the same.
    """
    before = read_manifest(path)
    if before is not None and any(before.signature.get(k) != v for k, v in signature.items()):
        write_manifest(path, replace(before, signature={**before.signature, UNFINISHED: "yes"}))


def read_manifest(path: Path) -> Manifest | None:
    """The manifest at `path`; None where there is none, or none that can be read."""
    try:
        content = orjson.loads(path.read_bytes())
        return Manifest(
            {str(k): str(v) for k, v in content["signature"].items()},
            str(content["made_by"]),
            str(content["made_at"]),
            dict(content["figures"]),
        )
    except (OSError, orjson.JSONDecodeError, KeyError, AttributeError, TypeError, ValueError):
        return None
