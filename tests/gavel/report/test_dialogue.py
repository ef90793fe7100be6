"""The pages of the dialogue benchmark: what they say, and that hostile text stays text."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

from gavel.dialogue.leaderboard import leaderboard
from gavel.dialogue.results import write_results
from gavel.report.dialogue import DialoguePages, render_leaderboard
from gavel.suite import Suite, load_suite

from .test_page import HOSTILE, Page, assert_harmless

ROOT = Path(__file__).parents[3]


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    shutil.copytree(ROOT / "sample" / "dialogue", tmp_path / "sample" / "dialogue")
    shutil.copytree(ROOT / "prompts", tmp_path / "prompts")
    settings = yaml.safe_load((ROOT / "suite.yaml").read_text(encoding="utf-8"))
    settings["dialogue"]["resamples"] = 100
    (tmp_path / "suite.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    return load_suite(tmp_path / "suite.yaml")


def test_the_leaderboard_says_what_there_is(suite: Suite, tmp_path: Path) -> None:
    assert suite.dialogue is not None
    results = [tmp_path / f"{name}.parquet" for name in ("careful", "hasty", "booker")]
    for path in results:
        write_results(suite, suite.dialogue, path.stem, path)
    html = render_leaderboard(suite.name, *leaderboard(suite.dialogue, results, outdated={"hasty"}))
    assert_harmless(html)
    words = Page(html).words
    assert (
        "hasty : its predictions, the corpus or the options have changed since it was evaluated"
        in words
    )
    assert "hasty 33.33 ○ 40.00" in words
    assert "DSTC8 Track 1" in words
    assert_harmless(render_leaderboard(suite.name, *leaderboard(suite.dialogue, [])))


@pytest.mark.parametrize("text", HOSTILE[:6])
def test_hostile_responses_and_states_stay_text(suite: Suite, tmp_path: Path, text: str) -> None:
    assert suite.dialogue is not None
    file = suite.path(suite.dialogue.predictions) / "hostile.json"
    turn = {"response": text, "state": {"attraction": {"name": text}}}
    file.write_text(json.dumps({"lin0004": [turn]}), encoding="utf-8")
    path = tmp_path / "hostile.parquet"
    write_results(suite, suite.dialogue, "hostile", path)
    pages = DialoguePages(suite, suite.dialogue, "hostile", path)
    assert_harmless(pages.render("lin0004"))
    missing = pages.render("lin0001")
    assert "The prediction file lacks the dialogue" in missing
    index = Page(pages.index(pages.failed()))
    assert "6 of 6 dialogues failed" in index.words
