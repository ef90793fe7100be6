"""Servers and clients as processes of their own, so that each is measured alone."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results"


@contextmanager
def served(script: str, stdin: str) -> Iterator[str]:
    """Run `benchmarks/{script} PORT` with `stdin`; yield its base_url."""
    port = _free_port()
    command = [sys.executable, str(HERE / script), str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdin is not None
            server.stdin.write(stdin)
            server.stdin.close()
            _wait_for(port, server)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            server.terminate()


def measured(
    client: Path, arguments: Sequence[object], python: str | Path = sys.executable
) -> dict[str, Any]:
    """Run `client` with `arguments` and return what its meter reports, with `cpu_ms` a record and `rate`.

    Raises:
        RuntimeError: it failed; the message holds the end of what it wrote.
    """
    # Not the environment's proxies and keys, nor its packages: the same start for everyone.
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ.get("HOME", "/tmp"),
        "PYTHONPATH": str(HERE),
        "NO_PROXY": "127.0.0.1",
    }
    done = subprocess.run(
        [str(python), str(client), *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"records"')]
    if done.returncode or not lines:
        end = (done.stderr or done.stdout).strip()[-800:]
        raise RuntimeError(f"{client.relative_to(HERE)} exited with {done.returncode}: {end}")
    found: dict[str, Any] = json.loads(lines[-1])
    found["rate"] = found["records"] / found["seconds"]
    found["cpu_ms"] = 1000 * found["cpu_seconds"] / found["records"]
    return found


def posted(base_url: str) -> int:
    """How many requests the server at `base_url` has been asked."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{base_url}/stats", timeout=10) as reply:
        return int(json.load(reply)["posted"])


def write_results(name: str, result: dict[str, Any]) -> None:
    """Write benchmarks/results/{name}.json, with what the machine was like."""
    RESULTS.mkdir(exist_ok=True)
    machine = {"cpus": os.cpu_count(), "load_at_end": os.getloadavg()[0]}
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({**result, **machine}, indent=2) + "\n")
    print(f"written to {path.relative_to(HERE.parent)}; load average {machine['load_at_end']:.1f}")


def verdict(met: bool) -> str:
    """How a target is marked in a table."""
    return "met" if met else "MISSED"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int, server: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise RuntimeError(f"the server exited with {server.returncode} before it listened")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError(f"nothing listens on port {port} after 20 s")
