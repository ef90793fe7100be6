"""Peers in virtual environments of their own, made on demand under benchmarks/.venvs/."""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path

from processes import HERE

_READY = "installed.txt"


def python_of(peer: str) -> Path:
    """The interpreter of the environment of `peer`, installed from benchmarks/peers/{peer}/requirements.txt.

    Raises:
        RuntimeError: it cannot be installed.
    """
    wanted = (HERE / "peers" / peer / "requirements.txt").read_text()
    ready = HERE / ".venvs" / peer / _READY
    python = ready.parent / "bin" / "python"
    if not ready.exists() or ready.read_text() != wanted:
        print(f"installing {peer} (once, about a minute)", flush=True)
        venv.create(ready.parent, with_pip=False, clear=True)
        requirements = HERE / "peers" / peer / "requirements.txt"
        installed = subprocess.run(
            [_uv(), "pip", "install", "--quiet", "--python", python, "-r", requirements],
            capture_output=True,
            text=True,
        )
        if installed.returncode:
            raise RuntimeError(f"{peer} cannot be installed: {installed.stderr.strip()[-400:]}")
        ready.write_text(wanted)
    return python


def _uv() -> Path:
    """uv, which resolves in seconds what takes pip minutes; from an environment of its own."""
    folder = HERE / ".venvs" / "uv"
    uv = folder / "bin" / "uv"
    if not uv.exists():
        try:
            venv.create(folder, with_pip=True, clear=True)
            command = [folder / "bin" / "pip", "install", "--quiet", "uv"]
            subprocess.run(command, check=True, capture_output=True, text=True)
        except subprocess.CalledProcessError as error:
            raise RuntimeError(f"uv cannot be installed: {str(error.stderr)[-400:]}") from error
    return uv
