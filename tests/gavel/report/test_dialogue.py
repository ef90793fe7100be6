"""The pages of the dialogue benchmark: what they say, and that hostile text stays text."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from gavel.dialogue.leaderboard import leaderboard
from gavel.dialogue.results import write_results
from gavel.report.dialogue import DialoguePages, page_name, render_leaderboard
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


def test_a_long_name_is_whole_when_pointed_at(suite: Suite, tmp_path: Path) -> None:
    assert suite.dialogue is not None
    predictions = suite.path(suite.dialogue.predictions)
    long = "a-system-whose-name-" + "goes-on-and-" * 5 + "on"
    results = [tmp_path / f"{name}.parquet" for name in (long, "hasty")]
    shutil.copy(predictions / "careful.json", predictions / f"{long}.json")
    for path in results:
        write_results(suite, suite.dialogue, path.stem, path)
    html = render_leaderboard(suite.name, *leaderboard(suite.dialogue, results))
    assert_harmless(html)
    places = html.count(f">{long[:60]}… (22 more characters)</bdi>")
    # Six figures, three pairs, and two signatures.
    assert places == html.count(f'<bdi title="{long}">') == 11


def test_shares_are_drawn_up_to_100(suite: Suite, tmp_path: Path) -> None:
    assert suite.dialogue is not None
    path = tmp_path / "careful.parquet"
    write_results(suite, suite.dialogue, "careful", path)
    words = Page(render_leaderboard(suite.name, *leaderboard(suite.dialogue, [path]))).words
    assert "Inform careful 100.00 99.5 100 " in words
    assert "Combined, 0 to 200" in words


def test_a_lexicalised_dialogue_is_shown_in_its_own_words(suite: Suite, tmp_path: Path) -> None:
    assert suite.dialogue is not None
    path = tmp_path / "wordy.parquet"
    write_results(suite, suite.dialogue, "wordy", path)
    pages = DialoguePages(suite, suite.dialogue, "wordy", path)
    shown = [
        Page(pages.render(row)).words for row in pq.read_table(path)["dialogue_id"].to_pylist()
    ]
    unfounded = [words for words in shown if "unfounded" in words]
    assert len(unfounded) == 2  # of both readings of one dialogue
    assert "neither among the results given nor of the system's own state" in unfounded[0]
    assert all("written" in words for words in shown if "Turn 1" in words)


@pytest.mark.parametrize(
    ("dialogue", "name"),
    [
        ("sng0073", "sng0073"),
        ("SNG_01.a-b", "SNG_01.a-b"),
        ("index", None),
        ("../../outside", None),
        ("a/b", None),
        ("", None),
        ("x" * 300, None),
        ("\ud800", None),
    ],
)
def test_an_id_that_can_name_no_file_has_a_page_by_its_hash(
    dialogue: str, name: str | None
) -> None:
    if name is None:
        assert re.fullmatch(r"dialogue-[0-9a-f]{16}", page_name(dialogue))
    else:
        assert page_name(dialogue) == name


def test_the_index_leads_to_every_page(suite: Suite, tmp_path: Path) -> None:
    assert suite.dialogue is not None
    file = suite.path(suite.dialogue.predictions) / "acts.json"
    file.write_text(json.dumps({"../../outside": {"goal": {}, "turns": [{}]}}), encoding="utf-8")
    path = tmp_path / "acts.parquet"
    write_results(suite, suite.dialogue, "acts", path)
    pages = DialoguePages(suite, suite.dialogue, "acts", path)
    assert pages.failed() == ["../../outside"]
    index = pages.index(pages.failed())
    assert f'href="{page_name("../../outside")}.html"' in index
    assert "Dialogue ../../outside" in Page(pages.render("../../outside")).words


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
