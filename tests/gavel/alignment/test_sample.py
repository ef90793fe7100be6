"""The sample for annotation: how many of which, by what chance, for whom; and what they get."""

from __future__ import annotations

import csv
import json
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavel.alignment.sample import allocate, missed_strata, sample
from gavel.alignment.sheets import labelling_setup, write_sheets
from gavel.errors import LabelError, SuiteError
from gavel.judge.rubric import load_rubric
from gavel.store.tables import write_batches

from .conftest import Scored, record

SIZES = st.dictionaries(st.text("abcdef", min_size=1, max_size=2), st.integers(0, 50), min_size=1)


@given(SIZES, st.integers(0, 200), st.sampled_from(["equal", "proportional"]))
def test_what_is_given_is_what_was_wanted_and_there(
    sizes: dict[str, int], wanted: int, allocation: str
) -> None:
    if not sum(sizes.values()):
        return
    given_ = allocate(sizes, wanted, allocation)
    assert sum(given_.values()) == min(wanted, sum(sizes.values()))
    assert all(0 <= count <= sizes[name] for name, count in given_.items())
    if allocation == "equal":
        open_ = [given_[name] for name in given_ if given_[name] < sizes[name]]
        assert not open_ or max(given_.values()) - min(open_) <= 1


@pytest.mark.parametrize(
    ("allocation", "expected"),
    [
        ("equal", {"big": 18, "middle": 10, "rare": 2}),
        # 30 of 112: 26.8, 2.7 and 0.5
        ("proportional", {"big": 27, "middle": 3, "rare": 0}),
    ],
)
def test_rare_classes_are_taken_whole_or_by_their_share(
    allocation: str, expected: dict[str, int]
) -> None:
    sizes = {"big": 100, "middle": 10, "rare": 2}
    assert allocate(sizes, 30, allocation) == expected


def drawn(scored: Scored, **settings: Any) -> list[dict[str, Any]]:
    scored.settings["alignment"]["sample"] = {"core": 0, **settings}
    table = sample(scored.suite, scored.store)
    rows: list[dict[str, Any]] = table.filter(
        [task == "chat" for task in table["task"].to_pylist()]
    ).to_pylist()
    return rows


def test_equal_draws_of_the_first_label_by_default(scored: Scored) -> None:
    rows = drawn(scored, size=12)
    assert [row["place"] for row in rows] == list(range(1, 13))
    strata = [row["stratum"] for row in rows]
    assert (strata.count("intent=buy"), strata.count("intent=Return")) == (6, 6)
    chances = {row["stratum"]: row["inclusion_probability"] for row in rows}
    assert chances == {"intent=buy": 6 / 20, "intent=Return": 6 / 10}
    # The order tells nothing of the stratum.
    assert strata[:6] != ["intent=Return"] * 6
    assert rows == drawn(scored, size=12)
    assert rows != drawn(scored, size=12, seed=8)


def test_strata_of_numbers_missing_values_and_columns_of_another_task(scored: Scored) -> None:
    scored.score(
        [record(n, intent=None if n < 3 else "buy", confidence=float(n)) for n in range(30)]
    )
    rows = drawn(scored, size=30, strata=["confidence", "intent"])
    sizes: dict[str, int] = {}
    for row in rows:
        sizes[row["stratum"]] = sizes.get(row["stratum"], 0) + 1
    assert sizes == {
        "confidence=low, intent=(none)": 3,
        "confidence=low, intent=buy": 7,
        "confidence=middle, intent=buy": 10,
        "confidence=high, intent=buy": 10,
    }
    with pytest.raises(
        LabelError, match="'tier' is no column of any task's scores; accepted for chat"
    ):
        drawn(scored, strata=["tier"])


def test_strata_that_were_missed_are_told(scored: Scored) -> None:
    scored.score([record(n, intent=("buy", "return", None)[n % 3]) for n in range(30)])
    drawn(scored, size=2)
    table = sample(scored.suite, scored.store)
    (told,) = missed_strata(scored.suite, scored.store, table)
    assert told.startswith("chat: 1 of 3 strata are not in the sample (intent=return), so")
    assert told.endswith("set round: 2 and size: 30")
    drawn(scored, size=3)
    assert missed_strata(scored.suite, scored.store, sample(scored.suite, scored.store)) == []


def test_of_an_id_that_starts_anew_each_day_the_latest_record_is_drawn_once(scored: Scored) -> None:
    scored.score([record(n, language="fr") for n in range(20, 30)], day="2026-11-03")
    rows = drawn(scored, size=30, strata=["language"])
    assert len({row["row_id"] for row in rows}) == len(rows) == 30
    by_number = {int(row["row_id"], 16): row["stratum"] for row in rows}
    assert {by_number[n] for n in range(20, 30)} == {"language=fr"}
    assert "language=fr" not in {by_number[n] for n in range(20)}


def test_overlap_and_core(scored: Scored) -> None:
    people = ["ann", "bob", "cem"]
    rows = drawn(scored, size=12, annotators=people, overlap=2, core=3)
    assert [row["core"] for row in rows] == [True] * 3 + [False] * 9
    assert all(row["annotators"] == people for row in rows[:3])
    assert all(len(set(row["annotators"])) == 2 for row in rows[3:])
    assert [sum(name in row["annotators"] for row in rows[3:]) for name in people] == [6, 6, 6]


def test_a_round_stays_and_the_next_draws_others(scored: Scored) -> None:
    scored.settings["alignment"]["sample"] = {"size": 10, "core": 0}
    first = sample(scored.suite, scored.store)
    write_batches(scored.store.table("alignment/sample"), first.schema, first.to_batches())
    scored.score([record(n) for n in range(30, 60)], day="2026-11-03")
    assert sample(scored.suite, scored.store).equals(first)
    scored.settings["alignment"]["sample"]["round"] = 2
    both = sample(scored.suite, scored.store)
    assert both.slice(0, first.num_rows).equals(first)
    row_ids = both["row_id"].to_pylist()
    assert len(set(row_ids)) == len(row_ids) == 10 + 2 + 10


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"annotators": ["a", "a"]}, "annotators repeats a name"),
        ({"annotators": ["a/b"]}, "'a/b' cannot name a sheet"),
        ({"annotators": ["a"], "overlap": 2}, "overlap 2 is more than the 1 annotators"),
        ({"allocation": "all"}, "alignment.sample.allocation"),
    ],
)
def test_settings_that_cannot_be(scored: Scored, settings: dict[str, Any], told: str) -> None:
    scored.settings["alignment"]["sample"] = settings
    with pytest.raises(SuiteError, match=told):
        scored.suite  # noqa: B018


def test_sheets_are_blind_and_safe(scored: Scored) -> None:
    hostile = '=HYPERLINK("http://evil.example","prize")'
    scored.score([record(0, prompt=hostile, response='a\n<b>,"c"'), record(1, prompt="-1")])
    scored.settings["alignment"]["sample"] = {"size": 5, "annotators": ["ann"], "core": 0}
    suite = scored.suite
    folder = scored.folder / "out"
    files = write_sheets(suite, scored.store, sample(suite, scored.store), folder)
    assert {p.relative_to(folder).as_posix() for p in files if "chat" in p.parts} == {
        *("chat/ann.csv", "chat/guide.md", "chat/label_studio.json", "chat/label_studio.xml"),
    }
    with (folder / "chat" / "ann.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [
        *("row_id", "annotator", "task", "language", "prompt", "response"),
        *("help", "tone", "wit", "intent", "sub_intent", "comment"),
    ]
    assert sorted(row["prompt"] for row in rows) == sorted([f"'{hostile}", "'-1"])
    assert 'a\n<b>,"c"' in {row["response"] for row in rows}
    tasks = json.loads((folder / "chat" / "label_studio.json").read_text())
    assert all(
        set(task["data"]) == {"row_id", "task", "language", "prompt", "response"} for task in tasks
    )
    guide = (folder / "chat" / "guide.md").read_text()
    assert "- `buy`: wants to buy" in guide
    assert "- `paint` (under `buy`)" in guide
    assert "leave it empty where it cannot apply" in guide


def test_a_sheet_that_may_hold_labels_is_not_overwritten(scored: Scored) -> None:
    scored.score([record(0), record(1)])
    scored.settings["alignment"]["sample"] = {"size": 5, "annotators": ["ann"], "core": 0}
    suite = scored.suite
    folder = scored.folder / "out"
    drawn = sample(suite, scored.store)
    write_sheets(suite, scored.store, drawn, folder)
    write_sheets(suite, scored.store, drawn, folder)
    sheet = folder / "chat" / "ann.csv"
    filled = sheet.read_text(encoding="utf-8") + "filled in\n"
    sheet.write_text(filled, encoding="utf-8")
    with pytest.raises(LabelError, match="it may hold labels"):
        write_sheets(suite, scored.store, drawn, folder)
    assert sheet.read_text(encoding="utf-8") == filled


def test_empty_sheets_make_room_for_those_of_the_next_round(scored: Scored) -> None:
    scored.score([record(n) for n in range(4)])
    folder = scored.folder / "out"
    drawn = []
    for number in (1, 2):
        settings = {"size": 1, "annotators": ["ann"], "core": 0, "round": number}
        scored.settings["alignment"]["sample"] = settings
        table = sample(scored.suite, scored.store)
        write_batches(scored.store.table("alignment/sample"), table.schema, table.to_batches())
        write_sheets(scored.suite, scored.store, table, folder)
        drawn.append((folder / "chat" / "ann.csv").read_text(encoding="utf-8"))
    assert drawn[0] != drawn[1]


def test_the_labelling_setup_is_xml_with_a_control_for_each_field(scored: Scored) -> None:
    rubric = load_rubric(scored.folder / "prompts" / "chat")
    root = ElementTree.fromstring(labelling_setup(rubric, ["prompt", "response"]))
    controls = {e.get("name"): e for e in root if e.get("toName")}
    assert list(controls) == rubric.columns
    shown = {e.get("name") for e in root.iter("Text")}
    assert {e.get("toName") for e in controls.values()} <= shown
    assert dict(controls["help"].items()) == {
        **{"name": "help", "toName": "response", "min": "1", "max": "5", "step": "1"},
    }
    assert not any(e.get("required") for e in controls.values()), "who cannot tell leaves it empty"
    choices = [e.get("value") for e in controls["sub_intent"]]
    assert choices == ["paint", "nails", "broken", "wrong size"]
