"""No secret is in anything that a run writes: tables, ledger, Dagster's own history, logs, error text."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from gavel.alerts import Alert, tell
from gavel.errors import SuiteError
from gavel.settings.operation import Alerts
from gavel.suite import load_suite
from tests.e2e.test_command import DAYS, folder
from tests.endpoint import Ask, Endpoint, Reply, valid

__all__ = ["folder"]

KEY = "sk-proj-4f1d9cSECRET7781"


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint(valid) as server:
        yield server


def written(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Everything under `folder`, compressed files as what they hold."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            content = path.read_bytes()
            if path.suffix == ".parquet":
                content = str(pq.read_table(path).to_pylist()).encode()
            elif path.suffix == ".gz":
                content = gzip.decompress(content)
            yield str(path), content


def run(folder: Path) -> tuple[int, str]:
    environment = {
        **os.environ,
        "DAGSTER_HOME": str(folder / "home"),
        "GAVEL_SUITE": "suite.yaml",
        "OPENAI_API_KEY": KEY,
    }
    command = [sys.executable, "-m", "evaluate", DAYS[0]]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def assert_unseen(folder: Path, output: str) -> None:
    found = [name for name, content in written(folder) if KEY.encode() in content]
    assert found == []
    assert KEY not in output


def test_a_server_that_repeats_the_key_does_not_get_it_into_anything_kept(
    folder: Path, endpoint: Endpoint
) -> None:
    def behave(ask: Ask) -> Reply:
        assert ask.headers["Authorization"] == f"Bearer {KEY}"
        if "wall 3 " in ask.record:
            return Reply(f"You are {ask.headers['Authorization']}, and I will not judge.")
        if "wall 5 " in ask.record:
            return Reply(status=400, body={"error": {"message": f"not with {KEY}"}})
        if "wall 7 " in ask.record and ask.nth == 1:
            return Reply(status=500, body=f"cannot think of {KEY}")
        return valid(ask)

    endpoint.behave = behave
    code, output = run(folder)
    assert code == 0, output
    kept = {name: content for name, content in written(folder) if "ledger" in name}
    assert any(b"You are Bearer (the API key)" in content for content in kept.values())
    assert any(b"not with (the API key)" in content for content in kept.values())
    assert_unseen(folder, output)


@pytest.mark.parametrize("status", [401, 404, 500])
def test_a_refusal_and_an_outage_tell_no_key(folder: Path, endpoint: Endpoint, status: int) -> None:
    message = {"error": {"message": f"Incorrect API key provided: {KEY}"}}
    endpoint.behave = lambda ask: Reply(status=status, body=message)
    endpoint.models = lambda: Reply(status=status, body=message)
    code, output = run(folder)
    assert code == 1
    assert "Incorrect API key provided: (the API key)" in output
    assert_unseen(folder, output)


@pytest.mark.parametrize(
    "address", [f"hook/{KEY}", f"http://127.0.0.1:9/{KEY}", f"http://127.0.0.1:9/a {KEY}"]
)
def test_an_alert_that_is_not_delivered_shows_no_address(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK", address)
    monkeypatch.setattr("gavel.alerts._PAUSE", 0.01)
    alert, settings = Alert("k", "quality", "what", "todo"), Alerts(webhook_url_env="HOOK")
    (sentence,) = tell({}, [alert], settings, print).broken
    assert KEY not in sentence


@pytest.mark.parametrize(
    ("base_url", "path", "sentence"),
    [
        (f"http://user:{KEY}@127.0.0.1/v1", "{day}.jsonl", "base_url holds a name or password"),
        (f"http://127.0.0.1/v1?api-key={KEY}", "{day}.jsonl", "base_url holds a query"),
        ("http://127.0.0.1/v1", f"s3://AKIA:{KEY}@logs/{{day}}.jsonl", "path holds a name or key"),
    ],
)
def test_a_secret_in_an_address_is_refused(
    tmp_path: Path, base_url: str, path: str, sentence: str
) -> None:
    file = tmp_path / "suite.yaml"
    settings = {
        "first_day": DAYS[0],
        "sources": [{"name": "web", "format": "jsonl", "path": path}],
        "evaluator": "judge",
        "evaluators": {
            "judge": {"backend": "openai_compatible", "model": "m", "base_url": base_url}
        },
    }
    file.write_text(yaml.safe_dump(settings))
    with pytest.raises(SuiteError, match=sentence) as error:
        load_suite(file)
    assert KEY not in str(error.value)
