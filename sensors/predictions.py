"""A prediction file that arrives or changes becomes a partition of the dialogue benchmark, and is evaluated.

A tick looks at names, sizes and times, and reads a file only where those have changed. A changed
file is one run, asked for once: how often the file has changed is part of the run key, since a key that
was used is skipped for ever, also when a file becomes again what it was.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg

from assets.dialogue import EVALUATE, SYSTEMS
from gavel.dialogue.predictions import content_hash
from gavel.dialogue.results import systems
from gavel.suite import Suite

MOST_REQUESTS = 20
"""Runs asked for in one tick; what is beyond them waits for the next."""

PARTITION_NAME = re.compile(r"[A-Za-z0-9_.-]+")
"""What can name a system; Dagster gives other characters a meaning in partition keys."""


@dataclass(frozen=True)
class Known:
    """What the last tick knew of a file: size and time, content hash, and how often it has changed."""

    size: int
    modified: int
    content: str
    changes: int


@dataclass
class Decision:
    """What a tick does: systems to evaluate with their run keys, and what it then knows."""

    run_keys: dict[str, str] = field(default_factory=dict)
    known: dict[str, Known] = field(default_factory=dict)


def decide(
    found: Mapping[str, tuple[int, int]],
    known: Mapping[str, Known],
    content: Callable[[str], str],
    most: int = MOST_REQUESTS,
) -> Decision:
    """Which systems to evaluate: those whose file is new or holds something else than before.

    `found` has size and time of each system's file, `content` reads a file's hash. A file that has
    gone keeps its results and what is known of it, so that its coming back unchanged asks for nothing.
    """
    decision = Decision(known=dict(known))
    for system, (size, modified) in sorted(found.items()):
        before = known.get(system)
        if before is not None and (before.size, before.modified) == (size, modified):
            continue
        if len(decision.run_keys) == most:
            break
        now = content(system)
        changed = before is None or before.content != now
        changes = (0 if before is None else before.changes) + changed
        decision.known[system] = Known(size, modified, now, changes)
        if changed:
            decision.run_keys[system] = f"dialogue|{system}|{now}|{changes}"
    return decision


def prediction_sensors(suite: Suite) -> list[dg.SensorDefinition]:
    """The sensor of the folder of predictions; none where the suite has no dialogue section."""
    if (settings := suite.dialogue) is None:
        return []
    folder = suite.path(settings.predictions)

    @dg.sensor(
        name="predictions",
        job_name=EVALUATE,
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Evaluates a dialogue system when its prediction file arrives or changes.",
    )
    def predictions(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        named = _named(context, systems(suite, settings))
        found = {system: _state(folder / f"{system}.json") for system in named}
        known = _read(context.cursor)
        decision = decide(
            {system: state for system, state in found.items() if state is not None},
            known,
            lambda system: content_hash(folder / f"{system}.json"),
        )
        if decision.known == known:
            return dg.SkipReason(f"no prediction file of {folder} is new or changed")
        return dg.SensorResult(
            run_requests=[
                dg.RunRequest(run_key=key, partition_key=system)
                for system, key in decision.run_keys.items()
            ],
            dynamic_partitions_requests=[SYSTEMS.build_add_request(list(decision.run_keys))]
            if decision.run_keys
            else [],
            cursor=_written(decision.known),
        )

    return [predictions]


def _named(context: dg.SensorEvaluationContext, found: Iterable[str]) -> list[str]:
    """Those of the names that a partition can have; the others are logged."""
    named = []
    for system in found:
        if PARTITION_NAME.fullmatch(system):
            named.append(system)
        else:
            context.log.warning(
                f"{system}.json cannot name a system; accepted: letters, digits, _ . and -"
            )
    return named


def _state(path: Path) -> tuple[int, int] | None:
    """Size and time of a file; None where it has just gone."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns


def _read(cursor: str | None) -> dict[str, Known]:
    held: dict[str, dict[str, Any]] = json.loads(cursor) if cursor else {}
    return {system: Known(**state) for system, state in held.items()}


def _written(known: Mapping[str, Known]) -> str:
    return json.dumps({system: asdict(state) for system, state in sorted(known.items())})
