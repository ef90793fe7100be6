"""`gavel-evaluate` answers ordinary mistakes with a sentence, before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import evaluate
from gavel.suite import load_suite

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    monkeypatch.setenv("GAVEL_SUITE", str(ROOT / "suite.yaml"))


@pytest.mark.parametrize("day", ["2026-04-01", "2026-11-2", "2026/11/02", "today"])
def test_what_is_no_day_of_the_suite_is_told(day: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate.main([day]) == 2
    told = capsys.readouterr().err
    assert day in told
    assert "2026-11-02 to 2026-11-04" in told
    assert "Traceback" not in told


@pytest.mark.parametrize("home", ["", "relative", "/no/such/folder"])
def test_a_home_that_cannot_be_is_told(
    home: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", home)
    assert evaluate.main([]) == 2
    assert "export DAGSTER_HOME" in capsys.readouterr().err


def test_a_day_named_twice_is_evaluated_once() -> None:
    suite = load_suite(ROOT / "suite.yaml")
    assert evaluate._checked_days(suite, ["2026-11-03", "2026-11-02", "2026-11-03"]) == [
        "2026-11-02",
        "2026-11-03",
    ]


def test_nobody_is_evaluated_in_a_language_whose_data_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran = []

    def run(steps: Sequence[tuple[str, str | None]]) -> tuple[str | None, int]:
        ran.extend(steps)
        return ("no translator" if steps[0][1] == "de" else None), 0

    monkeypatch.setattr(evaluate, "run_steps", run)
    suite = load_suite(ROOT / "suite.yaml")
    assert evaluate.evaluate_fashion(suite) == ["no translator"]
    steps = evaluate.fashion_steps(suite)
    missing = [str(step[1]) for step in steps if step not in ran]
    assert missing == ["de|scripted", "de|yake", "de|popularity", "de|lorem"]
