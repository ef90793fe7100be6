"""The fashion leaderboard's page: what it says, with and without BERTScore, and that hostile text stays text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gavel.agreement.bootstrap import Resampling
from gavel.fashion.dataset import DATASET, rows_of
from gavel.fashion.leaderboard import leaderboard
from gavel.fashion.vocabulary import load_vocabulary
from gavel.report.fashion import render_fashion
from gavel.report.summary import fashion_standings
from gavel.settings.fashion import Fashion
from gavel.store.files import Store
from gavel.store.tables import write_table
from gavel.suite import load_suite

from ..fashion.conftest import PROMPTS, goal, talk
from ..fashion.test_leaderboard import row
from .test_page import HOSTILE, Page, assert_harmless


def page(tmp_path: Path, *rows: dict[str, Any], suite: str = "demo") -> str:
    standings = leaderboard(rows, Resampling(100), {("de", "old")}).to_pylist()
    vocabulary = load_vocabulary(PROMPTS)
    return render_fashion(suite, Fashion(), standings, Store(tmp_path), vocabulary)


def test_outdated_figures_are_told(tmp_path: Path) -> None:
    words = Page(page(tmp_path, *(row(n, system="old") for n in (1, 2)))).words
    assert "de: old is outdated: the conversations or the settings have changed" in words
    assert "is outdated" not in Page(page(tmp_path, row(1), row(2))).words


def test_the_data_set_is_counted_as_it_is_now(tmp_path: Path) -> None:
    data = [{"language": "en", **each} for n in (1, 2) for each in rows_of(talk(goal=goal(n)))]
    conversations = [{**each, "customer": "hi"} for each in data]
    write_table(
        Store(tmp_path).table("fashion/conversations", "en"),
        pa.Table.from_pylist(conversations, DATASET),
    )
    assert "Conversations 2 Message pairs 2" in Page(page(tmp_path)).words


def test_the_page_ranks_by_bertscore_where_there_is_one(tmp_path: Path) -> None:
    rows = [row(n, bertscore=0.5 + n / 10) for n in range(4)]
    rows += [row(n, system="gpt", cost_usd=0.5, failures=["role_switch"]) for n in range(4)]
    html = page(tmp_path, *rows)
    assert_harmless(html)
    words = Page(html).words
    assert "Ranked by BERTScore F1 of query and goal" in words
    assert "QueryGenEval" in words
    assert "AssistantEval: " not in words
    assert "German gpt role_switch the reply speaks for the other side 100.0" in words
    # Published figures are marked as of other data, and complete.
    assert "Published, other data" in words
    assert "QueryGenEval yake 85.0 84.0 84.2 82.4" in words
    assert "$2.00" in words


def test_without_bertscore_it_says_so_plainly(tmp_path: Path) -> None:
    why = "no BERTScore: the extra `bertscore` is not installed"
    words = Page(page(tmp_path, *(row(n, bertscore=None, undefined=why) for n in range(3)))).words
    assert "Ranked by cosine of the embeddings" in words
    assert f"{why} ; until then quality is shown by the similarity" in words


def test_page_and_console_say_why_baselines_may_be_out_of_order(tmp_path: Path) -> None:
    rows = [
        row(n, system=system, bertscore=None, similarity=value)
        for system, value in (("popularity", 0.8010), ("lorem", 0.8038))
        for n in (1, 2)
    ]
    store = Store(tmp_path)
    write_table(store.table("fashion/leaderboard"), leaderboard(rows, Resampling(100)))
    told = fashion_standings(load_suite(PROMPTS.parents[1] / "suite.yaml"), store)
    assert "popularity (80.10) is not better than lorem (80.38) by similarity\nAn embedding" in told
    assert "lorem (80.38) by similarity. An embedding model" in Page(page(tmp_path, *rows)).words


def test_the_axis_of_cost_has_room_for_its_words(tmp_path: Path) -> None:
    rows = [row(n, cost_usd=0.00005) for n in (1, 2)]
    rows += [row(n, system="free", cost_usd=0.0) for n in (1, 2)]
    html = page(tmp_path, *rows)
    assert '<span style="left: 9.0%">free</span><span style="left: 30.0%">$0.0001</span>' in html
    assert '<span class="end">$0.001' in html


def test_an_empty_leaderboard_is_a_page(tmp_path: Path) -> None:
    html = page(tmp_path)
    assert_harmless(html)
    assert "No system has been evaluated yet" in Page(html).words


@pytest.mark.parametrize("text", HOSTILE[:6])
def test_hostile_names_and_reasons_stay_text(tmp_path: Path, text: str) -> None:
    rows = [
        row(n, system=text, bertscore=None, similarity=0.1 * n, undefined=text, signature=text)
        for n in (1, 2)
    ]
    assert_harmless(page(tmp_path, *rows, suite=text))
