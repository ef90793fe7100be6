"""Labels that arrive or change, and scores that change beneath them, are measured anew.

A tick reads the files' names, sizes and times, and the manifests. How often they have changed is part of the run
key, since a key that was used is skipped for ever, also when the files become again what they were.
"""

import hashlib
import json
import zlib
from collections.abc import Iterable
from pathlib import Path

import dagster as dg

from assets.alignment import ALIGN
from gavel.alignment.files import label_files
from gavel.errors import GavelError
from gavel.store.files import Store
from gavel.suite import Suite, load_suite


def decide(state: str | None, cursor: str | None) -> tuple[str | None, str | None]:
    """The run key to ask for, or None; and the cursor. `state` is None where there are no labels.

    What a cursor that cannot be read had counted is not known: the count goes on from a number of its own.
    """
    try:
        known, times = json.loads(cursor) if cursor else (None, 0)
        times = int(times)
    except (ValueError, TypeError):
        known, times = None, zlib.crc32(str(cursor).encode())
    if state == known:
        return None, cursor
    # With the last label gone, what was measured by it is no more.
    return f"alignment|{state or 'no labels'}|{times + 1}", json.dumps([state, times + 1])


def label_sensors(suite: Suite) -> list[dg.SensorDefinition]:
    """The sensor of label files."""
    file = str(suite.file)

    @dg.sensor(
        name="labels",
        job_name=ALIGN,
        minimum_interval_seconds=suite.automation.interval,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Measures the evaluator against people when a label file, a setting of alignment or, while "
        "there are labels, scores arrive or change.",
    )
    def labels(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        try:
            state = _state(load_suite(file))
        except GavelError as error:
            return dg.SkipReason(str(error))
        key, cursor = decide(state, context.cursor)
        if key is None:
            return dg.SkipReason("no label file, setting or score is new or changed")
        return dg.SensorResult(run_requests=[dg.RunRequest(run_key=key)], cursor=cursor)

    return [labels]


def _state(suite: Suite) -> str | None:
    """16 hex digits of label files, settings and the manifests of scores; None without labels or scores."""
    store = Store(suite.path(suite.store))
    manifests = [
        (path.name, path.read_bytes())
        for task in suite.task_names()
        for path in store.documents(f"{task}/scores")
    ]
    files = label_files(suite.path(suite.alignment.labels))
    if not manifests or not (files or suite.alignment.table):
        return None
    # A table of the warehouse tells no more than that its file was written.
    table = [suite.path(suite.warehouse)] if suite.alignment.table else []
    settings = suite.alignment.model_dump(exclude={"sample"})
    state = repr([settings, *_stats([*files, *table]), *manifests])
    return hashlib.sha256(state.encode()).hexdigest()[:16]


def _stats(files: Iterable[Path]) -> Iterable[tuple[str, int, int]]:
    for path in files:
        try:
            stat = path.stat()
        except OSError:  # it has just gone
            continue
        yield str(path), stat.st_size, stat.st_mtime_ns
