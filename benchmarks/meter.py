"""What a client process measures of itself; standard library only, since peers run it too."""

from __future__ import annotations

import json
import resource
import time
from pathlib import Path
from typing import Any


class Meter:
    """Starts when made, which is after the imports: loading code is not part of any rate."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), _cpu()

    def report(self, records: int, **more: Any) -> None:
        """Print the one line of JSON that `processes.measured` reads."""
        found = {
            "records": records,
            "seconds": time.perf_counter() - self._wall,
            "cpu_seconds": _cpu() - self._cpu,
            "peak_mib": peak_mib(),
            **more,
        }
        print(json.dumps(found), flush=True)


def _cpu() -> float:
    """User and system seconds of this process, all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak_mib() -> float:
    """The most memory this process has held at once.

    From VmHWM, since ru_maxrss of a child starts at what its parent held.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
