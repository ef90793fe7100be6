"""Which process executes a run, so that the run of one that was killed is not taken for at work for ever."""

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import dagster as dg

PROCESS_TAG = "gavel/process"
"""The tag of a run that names the machine, the process on it, and when that process started."""

STARTED_AGAIN = {
    "dagster/max_retries": "2",
    "dagster/retry_strategy": "ALL_STEPS",
    "dagster/retry_on_asset_or_op_failure": "false",
}
"""Tags of a job whose run Dagster starts again when its process was killed, and not when it failed by itself: what
was wrong would be so again. The runs of the daily evaluation need none: `failed_partitions` tries those again."""

_FIRST_STEP = 60.0
"""Seconds from the start of a run within which its first step has begun; a fraction of one is usual."""
_EXECUTED = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.CANCELING]


def process_tags() -> dict[str, str]:
    """The tags of a run that this process executes."""
    return {PROCESS_TAG: f"{socket.gethostname()} {os.getpid()} {_started(os.getpid())}"}


def note_process(instance: dg.DagsterInstance, run: dg.DagsterRun) -> None:
    """Tag `run` as executed by this process, unless it is so already."""
    if process_tags().items() - run.tags.items():
        instance.add_run_tags(run.run_id, process_tags())


def end_abandoned_runs(
    instance: dg.DagsterInstance, noted: Callable[[dg.DagsterRun], bool] = lambda run: False
) -> None:
    """Have the runs whose process on this machine was killed said to have failed.

    Nobody else does: Dagster's own monitoring asks the run launcher, and the one for a single machine cannot tell.
    `noted` says of a run whether its first step notes the process; where that has not come about long after the
    start, the process was killed before.
    """
    for record in instance.get_run_records(dg.RunsFilter(statuses=_EXECUTED)):
        run = record.dagster_run
        match run.tags.get(PROCESS_TAG, "").split():
            case [host, process, started]:
                killed = host == socket.gethostname() and not _alive(int(process), started)
            case _:
                start = record.start_time or time.time()
                killed = noted(run) and time.time() - start > _FIRST_STEP
        if killed:
            instance.report_run_failed(run, "the process that executed it was killed")


def _alive(process: int, started: str) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's
    # Numbers are used again, also after a restart of the machine.
    return _started(process) == started


def _started(process: int) -> str:
    """When `process` started, in clock ticks since the machine did.

    `unknown` where the system does not tell, `ended` for one that was killed and whose parent has not taken note:
    in a container whose first process does not do that for orphans, it stays so.
    """
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "unknown"
    return "ended" if fields[0] in "ZX" else fields[19]
