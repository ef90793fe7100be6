"""The audit trail of a day: what failed, what was asked again, what was published, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from gavel.store.tables import session

EVENTS = pa.schema(
    [
        ("time", pa.timestamp("us", tz="UTC")),
        ("day", pa.string()),
        ("task", pa.string()),
        ("kind", pa.string()),
        ("row_id", pa.string()),
        ("request_hash", pa.string()),
        ("attempt", pa.int32()),
        ("code", pa.string()),
        ("detail", pa.string()),
        ("run_id", pa.string()),
    ]
)
"""One row an event. What `code` and `detail` hold depends on `kind`, see `events`."""


def events(
    day: str,
    tasks: Mapping[str, tuple[Sequence[Path], Sequence[Path]]],
    publications: Sequence[Mapping[str, Any]],
) -> pa.Table:
    """Every event of `day` (YYYY-MM-DD) as `EVENTS`, ordered by time, then by every other column.

    `tasks` gives each task's verdict and regenerated files. `publications` give `time` (with a time
    zone), `task`, `run_id` and, if wished, `code` and `detail`.

    - validation_failure: one a fault of an invalid verdict, of any attempt; `code` the fault,
      `detail` the verdict's fault_detail.
    - retry: one a try that was repeated, once an answer however many records share it; `code` what
      the try ran into, `detail` which try it was, `row_id` null where records share the answer,
      `time` that of the answer.
    - regeneration: one a record and attempt from the second on; `code` its outcome, valid or
      invalid.
    - publication: one a publication, as given.
    """
    tables = [
        pa.Table.from_pylist(
            [{**publication, "day": day, "kind": "publication"} for publication in publications],
            schema=EVENTS,
        )
    ]
    with session() as db:
        for task, (verdicts, regenerated) in tasks.items():
            if paths := [str(path) for path in (*verdicts, *regenerated)]:
                found = db.sql(_TASK_EVENTS, params={"paths": paths, "day": day, "task": task})
                tables.append(found.to_arrow_table().cast(EVENTS))
    return pa.concat_tables(tables).sort_by([(name, "ascending") for name in EVENTS.names])


_TASK_EVENTS = """
WITH verdicts AS (
    SELECT row_id, request_hash, attempt, status, faults, fault_detail, retries, run_id,
           evaluated_at
    FROM read_parquet($paths, union_by_name = true)
), answers AS (
    -- The rows of one answer repeat its retries, so any of them will do.
    SELECT request_hash, attempt, any_value(retries) AS retries, min(evaluated_at) AS time,
           min(run_id) AS run_id, CASE WHEN count(*) = 1 THEN min(row_id) END AS row_id
    FROM verdicts GROUP BY request_hash, attempt
), found AS (
    SELECT evaluated_at AS time, 'validation_failure' AS kind, row_id, request_hash, attempt,
           unnest(faults) AS code, fault_detail AS detail, run_id
    FROM verdicts WHERE status = 'invalid'
    UNION ALL
    SELECT time, 'retry', row_id, request_hash, attempt, unnest(retries),
           'try ' || generate_subscripts(retries, 1), run_id
    FROM answers
    UNION ALL
    SELECT evaluated_at, 'regeneration', row_id, request_hash, attempt, status, NULL, run_id
    FROM verdicts WHERE attempt >= 2
)
SELECT time, $day AS day, $task AS task, kind, row_id, request_hash, attempt, code, detail, run_id
FROM found
"""
