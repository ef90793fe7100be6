"""A dialogue system is evaluated when its results are not made from what is there now.

A tick compares what each system's results say they were made from (predictions, corpus, options) with
what is there. It looks at names, sizes and times of files, and reads one only where those have changed.
Each state of the world is asked for once: the run key holds what is wanted and what it would replace. A
system that was asked for and is not made has a run at work, or one that failed, and waits for a change; a run
whose process was killed is started again by Dagster.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg

from assets.dialogue import EVALUATE, LEADERBOARD, RANK, RESULTS, SYSTEMS
from assets.signatures import dialogue_signature, ranking_signature
from gavel.dialogue.predictions import content_hash
from gavel.dialogue.results import evaluated, systems
from gavel.errors import GavelError
from gavel.store.files import Store
from gavel.store.manifests import Manifest, read_manifest, signature_hash
from gavel.suite import Suite, load_suite
from sensors.decisions import causes_of
from sensors.state import CAUSE_TAG, SIGNATURE_TAG, listed

MOST_REQUESTS = 20
"""Runs asked for in one tick; what is beyond them waits for the next."""

RANKING = ""
"""Stands for the leaderboard among the names of systems, none of which is empty."""

Signature = Mapping[str, str]


@dataclass(frozen=True)
class Wish:
    """A run to ask for: the key that is used once, why, and the signature wanted."""

    run_key: str
    causes: tuple[str, ...]
    signature: str


@dataclass
class Decision:
    """What a tick does: what to make, by system; and those that were asked for before and are not made."""

    wishes: dict[str, Wish] = field(default_factory=dict)
    awaited: list[str] = field(default_factory=list)


def decide(
    wanted: Mapping[str, Signature],
    made: Mapping[str, Manifest | None],
    asked: Mapping[str, str],
    most: int = MOST_REQUESTS,
) -> Decision:
    """Which systems to evaluate: those whose results are not made from what is wanted.

    `asked` has the last run key of each system. A system whose file has gone is not among `wanted`, and
    keeps its results; the leaderboard is made anew to mark it.
    """
    decision = Decision()
    for system, signature in sorted(wanted.items()):
        before = made.get(system)
        causes = causes_of(None if before is None else before.signature, signature)
        if not causes:
            continue
        replaced = "nothing" if before is None else f"{before.made_by} {before.made_at}"
        hashed = signature_hash(signature)
        key = f"dialogue {system or 'leaderboard'} | {hashed} | after {replaced}"
        if asked.get(system) == key:
            decision.awaited.append(system)
        elif len(decision.wishes) < most:
            decision.wishes[system] = Wish(key, causes, hashed)
    return decision


class Contents:
    """Hashes of files, read only where size or time differ from what the last tick has seen."""

    def __init__(
        self,
        known: Mapping[str, Sequence[Any]],
        read: Callable[[Path], str] = content_hash,
    ) -> None:
        self._known, self._read = known, read
        self.seen: dict[str, Sequence[Any]] = {}
        """Size, time in nanoseconds, and hash of each file that was asked for."""

    def __call__(self, path: Path) -> str:
        """The hash of the content of `path`. Raises OSError."""
        if str(path) not in self.seen:
            stat = path.stat()
            state = [stat.st_size, stat.st_mtime_ns]
            *before, content = self._known.get(str(path), [""])
            self.seen[str(path)] = [*state, content if before == state else self._read(path)]
        return str(self.seen[str(path)][-1])


def prediction_sensors(suite: Suite, jobs: Sequence[Any]) -> list[dg.SensorDefinition]:
    """The sensor of the dialogue benchmark, of `jobs`; none where the suite has no dialogue section."""
    if suite.dialogue is None:
        return []
    file = str(suite.file)

    @dg.sensor(
        name="predictions",
        jobs=[job for job in jobs if job.name in (EVALUATE, RANK)],
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=(
            "Asks for the evaluation of a dialogue system when its prediction file arrives, or when its "
            "predictions, the corpus or its options differ from what its results were made from."
        ),
    )
    def predictions(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        try:
            return _tick(context, load_suite(file))
        except GavelError as error:
            return dg.SkipReason(str(error))

    return [predictions]


def _tick(context: dg.SensorEvaluationContext, suite: Suite) -> dg.SensorResult | dg.SkipReason:
    if (settings := suite.dialogue) is None:
        return dg.SkipReason("the suite has no section dialogue any more")
    store = Store(suite.path(suite.store))
    before = _read(context.cursor)
    contents = Contents(before["files"])
    found, refused = systems(suite, settings)
    for reason in refused:
        context.log.warning(reason)
    wanted = {s: dialogue_signature(suite, settings, s, contents) for s in found}
    made = {s: read_manifest(store.document(f"{'/'.join(RESULTS.path)}/{s}")) for s in found}
    if (ranked := read_manifest(store.document("/".join(LEADERBOARD.path)))) is not None:
        wanted[RANKING] = ranking_signature(suite, settings, evaluated(store), contents)
        made[RANKING] = ranked
    decision = decide(wanted, made, before["asked"])
    if len(decision.wishes) > 1 and decision.wishes.pop(RANKING, None) is not None:
        context.log.debug("the leaderboard is made anew with the systems")
    kept = {system: key for system, key in before["asked"].items() if system in wanted}
    asked = kept | {system: wish.run_key for system, wish in decision.wishes.items()}
    cursor = json.dumps({"files": contents.seen, "asked": asked}, sort_keys=True)
    if not decision.wishes:
        context.update_cursor(cursor)
        return dg.SkipReason(
            "asked for, and at work or failed until something changes: "
            + listed([system or "leaderboard" for system in decision.awaited])
            if decision.awaited
            else f"every system of {suite.path(settings.predictions)} is evaluated as it is"
        )
    new = [system for system in decision.wishes if system != RANKING]
    return dg.SensorResult(
        run_requests=[_request(system, wish) for system, wish in decision.wishes.items()],
        dynamic_partitions_requests=[SYSTEMS.build_add_request(new)] if new else [],
        cursor=cursor,
    )


def _request(system: str, wish: Wish) -> dg.RunRequest:
    return dg.RunRequest(
        run_key=wish.run_key,
        job_name=RANK if system == RANKING else EVALUATE,
        partition_key=None if system == RANKING else system,
        tags={SIGNATURE_TAG: wish.signature, CAUSE_TAG: ", ".join(wish.causes)[:250]},
    )


def _read(cursor: str | None) -> dict[str, dict[str, Any]]:
    """What the last tick saw; nothing where it cannot be read: the files are, and a key is used once anyway."""
    try:
        held = json.loads(cursor or "{}")
        return {part: dict(held.get(part, {})) for part in ("files", "asked")}
    except (ValueError, TypeError, AttributeError):
        return _read(None)
