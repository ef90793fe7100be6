"""A real vLLM with a real, very small model keeps to the contract of every evaluator: served, and in process."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gavel.inference.ledger import latest, segments
from gavel.judge.backends import backend_of
from gavel.judge.evaluate import Judge
from gavel.judge.prompts import Prompts
from gavel.settings.judging import Evaluator
from gavel.store.tables import session
from tests.integration.contract import ModelContract
from tests.integration.judging import RUBRIC, Bench, judge_at
from tests.ports import free_port

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not installed; make test-vllm installs it", allow_module_level=True)

ROOT = Path(__file__).parents[2]
MODEL = ROOT / ".venvs" / "vllm" / "smollm2"
ENGINE = {
    "enforce_eager": True,
    "max_model_len": 1024,
    "dtype": "float32",
    "gpu_memory_utilization": 0.2,
}


@pytest.fixture(scope="module", autouse=True)
def _quiet_at_exit() -> Iterator[None]:
    """vLLM's last words come when the stream they go to is closed; complaints of that would end the output."""
    yield
    logging.raiseExceptions = False


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def in_process(**settings: Any) -> Judge:
    evaluator = Evaluator(
        backend="vllm_offline",
        model=str(MODEL),
        engine=ENGINE,
        **{"max_tokens": 200, **settings},
    )
    return Judge(RUBRIC, Prompts(RUBRIC, "tiny"), "judge", evaluator, backend_of(evaluator))


class TestServer(ModelContract):
    @pytest.fixture(scope="class")
    def url(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
        port = free_port()
        command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", MODEL]
        command += ["--served-model-name", "smollm2", "--host", "127.0.0.1", "--port", port]
        command += ["--enforce-eager", "--max-model-len", 1024, "--dtype", "float32"]
        command += ["--gpu-memory-utilization", 0.2]
        command += ["--structured-outputs-config"]
        command += ['{"backend": "guidance", "disable_any_whitespace": true}']
        log = tmp_path_factory.mktemp("server") / "log"
        with log.open("wb") as out:
            server = subprocess.Popen(
                list(map(str, command)), stdout=out, stderr=out, start_new_session=True
            )
        try:
            for _ in range(600):
                assert server.poll() is None, log.read_text()[-3000:]
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2).close()
                    break
                except OSError:
                    time.sleep(0.5)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()

    @pytest.fixture(autouse=True)
    def asked(self, url: str) -> None:
        self.url = url

    def judge(self, **settings: Any) -> Judge:
        judge = judge_at(self.url, **{"max_tokens": 200, "timeout": 120.0, **settings})
        evaluator = judge.evaluator.model_copy(update={"model": "smollm2"})
        return Judge(RUBRIC, Prompts(RUBRIC, "tiny"), "judge", evaluator, backend_of(evaluator))

    def test_answers_name_the_model_and_the_servers_version(self, bench: Bench) -> None:
        import vllm

        bench.judge(self.judge(), 2)
        told = {row["model_revision"] for row in bench.rows()}
        assert len(told) == 1
        assert all(name.startswith("smollm2@") for name in told)
        assert vllm.__version__.split("+")[0] in told.pop() or "fp" in told

    def test_a_record_too_long_for_the_model_is_named(self, bench: Bench) -> None:
        too_long(bench, self.judge())


class TestInProcess(ModelContract):
    def judge(self, **settings: Any) -> Judge:
        return in_process(**settings)

    def test_answers_name_the_model_and_the_version(self, bench: Bench) -> None:
        import vllm

        bench.judge(self.judge(), 2)
        assert {r["model_revision"] for r in bench.rows()} == {f"{MODEL} vllm {vllm.__version__}"}

    def test_a_record_too_long_for_the_model_is_named(self, bench: Bench) -> None:
        too_long(bench, self.judge())

    def test_a_run_killed_in_the_middle_is_finished_by_the_next(self, bench: Bench) -> None:
        code = (
            "import sys; from pathlib import Path; from gavel.inference import vllm_offline;"
            "vllm_offline.BATCH = 8; from tests.integration.judging import Bench;"
            "from tests.vllm.test_vllm import in_process;"
            "Bench(Path(sys.argv[1])).judge(in_process(), 64, 'killed')"
        )
        command = [sys.executable, "-c", code, str(bench.folder)]
        with subprocess.Popen(command, cwd=ROOT, start_new_session=True) as run:
            deadline = time.monotonic() + 300
            while answered_so_far(bench) < 16:
                assert run.poll() is None, "it ended by itself"
                assert time.monotonic() < deadline, "it did not answer"
                time.sleep(0.05)
            os.killpg(run.pid, signal.SIGKILL)
        before = answered_so_far(bench)
        assert before < 64
        judged = bench.judge(self.judge(), 64, "next")
        assert judged.asked.known == before
        assert judged.valid == len(bench.rows()) == 64
        with session() as connection:
            held = connection.sql(latest(segments(bench.ledger))).to_arrow_table()
        assert held.num_rows == 64


def answered_so_far(bench: Bench) -> int:
    """The answers in the open tail of whoever judges now, or was killed."""
    return sum(path.read_bytes().count(b"\n") for path in bench.ledger.glob("*.tail"))


def too_long(bench: Bench, judge: Judge) -> None:
    """Of a shard with one record beyond the model's context, that one alone fails, by its name."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from gavel.inference.ledger import Ledger
    from gavel.judge.evaluate import judge_shard
    from tests.integration.judging import write_shard

    shard = write_shard(bench.folder / "shard.parquet", 5)
    table = pq.read_table(shard)
    prompts = table["prompt"].to_pylist()
    prompts[2] = "word " * 4000
    index = table.column_names.index("prompt")
    pq.write_table(table.set_column(index, "prompt", pa.array(prompts)), shard)
    with Ledger.open(bench.ledger, "run", "0") as ledger:
        judged = judge_shard(judge, shard, ledger, bench.verdicts)
    assert (judged.valid, dict(judged.faults)) == (4, {"context_overflow": 1})
    assert (
        json.dumps([row["faults"] for row in bench.rows()])
        == '[[], [], ["context_overflow"], [], []]'
    )
