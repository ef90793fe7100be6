"""The pages: what they say, that they ask for nothing, and that hostile text stays text."""

import datetime as dt
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gavel.report.page import (
    DayReport,
    Equality,
    RecordReport,
    TaskReport,
    render_day,
    render_record,
)
from gavel.report.quality import SCHEMA, quality
from gavel.settings.operation import Quality

from .conftest import SCORES, UTC, VERDICTS, verdict

VOID = {"meta", "br"}
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</style></title><svg onload=alert(1)>",
    "{{ 7 * 7 }}{% raw %}",
    "\u202etxet desrever\u202c \u05e9\u05dc\u05d5\u05dd",
    "nul\x00 and bell\x07 and half\ud800",
    "x" * 100_000,
]


class Page(HTMLParser):
    """Elements, attributes and text (charts apart) of a page; fails on a tag that is not closed."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "svg"} & set(self._open):
            self.text += " " + data

    @property
    def words(self) -> str:
        return " ".join(self.text.split())


def assert_harmless(html: str) -> None:
    page = Page(html)
    assert not {"script", "img", "link", "iframe", "object", "form", "base"} & set(page.tags)
    for _, name, value in page.attributes:
        assert not name.startswith("on")
        assert name not in ("src", "srcset", "data", "action")
        assert "://" not in value
        assert "url(" not in value
    html.encode("utf-8")
    assert not {"\x00", "\x07", "\u202e", "\u202c"} & set(html)
    assert "url(" not in html
    assert "@import" not in html
    assert (
        "meta",
        "content",
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:",
    ) in page.attributes


def report(tasks: list[TaskReport], **other: Any) -> DayReport:
    values: dict[str, Any] = {
        "suite": "Home",
        "day": "2026-11-02",
        "generated_at": dt.datetime(2026, 11, 3, 4, 5, tzinfo=UTC),
        "settings": Quality(),
        "raw": 10,
        "rejected": 2,
        "reasons": {"empty_response": 2, "missing_user_id": 1},
        "equalities": [Equality("raw = clean + rejected", "day", 10, (8, 2))],
        "tasks": tasks,
        **other,
    }
    return DayReport(**values)


@pytest.fixture
def table(scores: Path, verdicts: list[Path], regenerated: list[Path]) -> pa.Table:
    dimensions = [("helpfulness", 1.0, 5.0), ("clarity", 1.0, 5.0)]
    return quality(
        "chat",
        "2026-11-02",
        dimensions,
        ["intent"],
        scores,
        verdicts,
        regenerated,
        {},
        Quality(),
    )


def test_what_a_day_says(table: pa.Table) -> None:
    html = render_day(report([TaskReport("chat", table, provenance={"rubric_hash": "abc123"})]))
    assert_harmless(html)
    words = Page(html).words
    for said in (
        "Monday, 2 November 2026",
        "Rows in 10",
        "Rejected 2 20.0% of rows in",
        "Scored 7 of 8 records",
        "Unresolved 1",
        "Invalid at first 3 37.5%",
        "Repaired 2 66.7% of the invalid",
        "Requests made 12 1 saved",
        "Cost $6.00",
        "No warnings.",
        "mean score of 7 scored records",
        "10 = 8 + 2 ✓",
        "not_json the answer holds no single JSON object",
        "empty_response the agent's response is missing or blank",
        "abc123",
        "2026-11-03 04:05 UTC",
    ):
        assert said in words
    assert "Rule-based" not in words


def test_a_baseline_is_named_so(table: pa.Table) -> None:
    words = Page(render_day(report([TaskReport("chat", table, baseline=True)]))).words
    assert "Rule-based baseline (weak supervision), not a language model's judgement" in words


def test_a_broken_equality_is_the_first_warning(table: pa.Table) -> None:
    broken = Equality("scores = clean", "chat", 7, (8,))
    assert not broken.holds
    words = Page(
        render_day(
            report([], equalities=[broken], warnings={"chat drift thing": "chat: a thing drifted."})
        )
    ).words
    assert (
        "Rows do not add up: scores = clean fails for chat (7 against 8). chat: a thing drifted."
        in words
    )
    assert "7 ≠ 8 ✗" in words
    assert "No warnings" not in words


def test_nested_values_stand_under_their_parent() -> None:
    rows = [
        ("share", "intent", "order", 0.6),
        ("share", "intent", "advice", 0.4),
        ("share", "sub_intent", "where_is_it", 0.45),
        ("share", "sub_intent", "cancel_it", 0.15),
        ("share", "sub_intent", "which_drill", 0.4),
        *(("psi", name, None, 0.0) for name in ("intent", "sub_intent")),
    ]
    table = pa.Table.from_pylist(
        [
            {"task": "chat", "figure": f, "field": about, "key": key, "value": value, "n": 20}
            for f, about, key, value in rows
        ],
        schema=SCHEMA,
    )
    parents = {"where_is_it": "order", "cancel_it": "order", "which_drill": "advice"}
    task = TaskReport("chat", table, nesting={"intent": ("sub_intent", parents)})
    words = Page(render_day(report([task]))).words
    # .45 and .15 of all are .75 and .25 of the .6
    assert "order where is it 75% · cancel it 25%" in words
    assert "advice which drill 100%" in words


def test_trailing_days_and_a_gap(table: pa.Table, write: Callable[..., Path]) -> None:
    empty = quality(
        "chat",
        "2026-11-01",
        [("helpfulness", 1.0, 5.0)],
        [],
        write("none", SCORES, []),
        [write("nothing", VERDICTS, [])],
        [],
        {},
        Quality(),
    )
    trailing = [("2026-10-31", table), ("2026-11-01", empty)]
    html = render_day(report([TaskReport("chat", table, trailing)]))
    assert_harmless(html)
    # the mean of 2.5 3 3.5 4 4.5 4.5 4.5 is 26.5/7 = 3.79
    assert 'aria-label="Mean score a day: 3.79, none, 3.79"' in html
    assert 'class="band"' not in html, "it does not reach across a day without records"
    longer = render_day(report([TaskReport("chat", table, [("2026-10-30", table), *trailing])]))
    (band,) = re.findall(r'class="band" points="([^"]*)"', longer)
    assert [point.split(",")[0] for point in band.split()] == ["0.0", "33.33", "33.33", "0.0"]
    assert_harmless(render_day(report([TaskReport("chat", empty)])))


def test_no_tasks_and_no_rows() -> None:
    html = render_day(report([], raw=0, rejected=0, reasons={}, equalities=[]))
    assert_harmless(html)
    assert "No row was rejected." in Page(html).words


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_on_a_day(text: str, write: Callable[..., Path]) -> None:
    stored = text.replace("\ud800", "")
    row = {
        "row_id": "r1",
        "helpfulness": 3.0,
        "score": 3.0,
        "intent": stored,
        "language": stored,
        "agent_version": stored,
        "status": "valid",
    }
    table = quality(
        "chat",
        "2026-11-02",
        [("helpfulness", 1.0, 5.0)],
        ["intent"],
        write("s", SCORES, [row]),
        [write("v", VERDICTS, [verdict(1, 1, 0, faults=[stored], retries=[stored])])],
        [],
        {},
        Quality(),
    )
    task = TaskReport(
        text,
        table,
        nesting={"intent": (text, {text: text})},
        provenance={text: [text], "other": text},
        record_pages=[(text, "records/1.html", text)],
    )
    html = render_day(
        report(
            [task],
            suite=text,
            warnings={"a": text},
            reasons={text: 1},
            equalities=[Equality(text, text, 1, (2,))],
            versions={text: text},
        )
    )
    assert_harmless(html)
    assert len(html) < 100_000


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_on_a_record(text: str) -> None:
    attempt = {
        **verdict(1, 1, 0, faults=[text]),
        "fault_detail": text,
        "raw_response": text,
        "rationale": text,
        "intent": text,
        "model": text,
    }
    html = render_record(
        RecordReport(
            suite=text,
            day="2026-11-02",
            task=text,
            row_id=text,
            source_row=text,
            record={"prompt": text, "response": text, "retail_info": text, text: text},
            attempts=[attempt],
            judged=["intent"],
        )
    )
    assert_harmless(html)
    assert len(html) < 300_000


def test_what_a_record_says() -> None:
    attempts = [
        {**verdict(3, 1, 2, faults=["out_of_range"]), "fault_detail": "clarity is 9"},
        {**verdict(3, 2, 9), "rationale": "Plain.", "raw_response": '{"clarity": 4}'},
    ]
    for attempt, clarity in zip(attempts, (None, 4.0), strict=True):
        attempt.setdefault("raw_response", None)
        attempt.setdefault("rationale", None)
        attempt["clarity"] = clarity
    html = render_record(
        RecordReport(
            "Home",
            "2026-11-02",
            "chat",
            "r3",
            '{"prompt": "Hi"}',
            {"prompt": "Hi <b>", "response": "Hello", "score": 4.0, "reference": None},
            attempts,
            ["clarity"],
        )
    )
    words = Page(html).words
    for said in (
        "prompt Hi <b> response Hello",
        "Attempt 1: invalid out_of_range : clarity is 9 clarity \N{EN DASH}",
        "None came.",
        'Attempt 2: valid clarity 4.0 Plain. Raw response {"clarity": 4}',
        "request_hash q3",
        'Source row {"prompt": "Hi"}',
    ):
        assert said in words
