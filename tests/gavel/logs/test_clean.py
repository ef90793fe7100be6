"""Coercion of values, and every reason for which a row is rejected."""

from __future__ import annotations

import datetime as dt
import hashlib
import itertools
import json
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

from gavel.errors import SourceError, StoreError
from gavel.logs.clean import clean, write_raw
from gavel.logs.schema import CLEAN, RAW, REASONS, REJECTED
from gavel.logs.validity import CLEAN_VALID, RAW_VALID, REJECTED_VALID

from .conftest import DAY, TASKS, Ingest, lines, make_suite, row

DEFECTS: dict[str, dict[str, Any]] = {
    "empty_prompt": {"prompt": " \t\u3000\n"},
    "empty_response": {"response": ...},
    "missing_user_id": {"user_id": None},
    "missing_conversation_id": {"conversation_id": ""},
    "malformed_timestamp": {"start_time": "yesterday"},
    "end_before_start": {"end_time": "2026-11-02T09:59:59Z"},
    "unknown_task": {"task": "poetry"},
}


def instant(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).astimezone(dt.UTC)


def test_a_defect_is_named(ingest: Ingest) -> None:
    rows = [row(record_id=reason, **defect) for reason, defect in DEFECTS.items()]
    day = ingest([row(), *rows])
    assert {r["record_id"]: r["reasons"] for r in day.rejected} == {r: [r] for r in DEFECTS}
    assert day.counts.by_reason == {reason: int(reason in DEFECTS) for reason in REASONS}
    assert day.counts.by_task == {"chat": 1, "translation": 0}
    assert [r["content"] for r in day.rejected] == lines(rows).splitlines()


def test_every_reason_that_holds_is_listed(ingest: Ingest) -> None:
    pairs = [
        pair
        for pair in itertools.combinations(DEFECTS, 2)
        # Without a start there is nothing to end before.
        if pair != ("malformed_timestamp", "end_before_start")
    ]
    day = ingest(row(record_id=str(p), **DEFECTS[p[0]], **DEFECTS[p[1]]) for p in pairs)
    expected = [sorted(pair, key=list(REASONS).index) for pair in pairs]
    assert [r["reasons"] for r in day.rejected] == expected


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{not json", "unparseable_line"),
        (b'[{"prompt": "x"}]', "unparseable_line"),
        (b'"text"', "unparseable_line"),
        (b"null", "unparseable_line"),
        (b'{"prompt": "\\ud800"}', "unparseable_line"),
        (b'{"prompt": "cut\xc3"}', "invalid_utf8"),
        (b'\xff{"prompt": "x"}', "invalid_utf8"),
        (b'{"prompt": "\xed\xa0\x80"}', "invalid_utf8"),
    ],
)
def test_a_line_that_is_no_record_has_one_reason(
    ingest: Ingest, content: bytes, reason: str
) -> None:
    day = ingest(lines([row()]) + content + b"\n")
    (rejected,) = day.rejected
    assert rejected == {
        "row_id": None,
        "source": "web",
        "record_id": None,
        "source_file": f"{DAY}.jsonl",
        "source_line": 2,
        "reasons": [reason],
        "content": content,
        "content_text": content.decode("utf-8", "replace"),
    }


def test_the_first_faultless_row_of_an_id_stays(ingest: Ingest) -> None:
    day = ingest(
        [
            row(record_id="a", prompt=""),
            row(record_id="a", prompt="second"),
            row(record_id="a", prompt="third"),
            row(record_id="b", prompt=""),
            row(record_id="b", response="", task="poetry"),
        ]
    )
    assert [r["prompt"] for r in day.clean] == ["second"]
    assert [r["reasons"] for r in day.rejected] == [
        ["empty_prompt", "duplicate_record_id"],
        ["duplicate_record_id"],
        ["empty_prompt"],
        ["empty_response", "duplicate_record_id", "unknown_task"],
    ]


def test_sources_do_not_share_record_ids(ingest: Ingest, tmp_path: Path) -> None:
    sources = [
        {"name": name, "format": "jsonl", "path": f"{name}-{{day}}.jsonl"} for name in ("b", "a")
    ]
    for name in ("a", "b"):
        (tmp_path / f"{name}-{DAY}.jsonl").write_bytes(lines([row()]))
    day = ingest(sources=sources)
    assert [r["source"] for r in day.clean] == ["a", "b"]
    assert len({r["row_id"] for r in day.clean}) == 2


def test_a_row_without_an_id_is_named_by_its_content(ingest: Ingest) -> None:
    rows = [row(record_id=...), row(record_id=""), row(record_id=...)]
    day = ingest(rows)
    digest = hashlib.md5(lines(rows[:1]).strip()).hexdigest()
    assert day.clean[0]["record_id"] == f"content-{digest}"
    assert [r["reasons"] for r in day.rejected] == [["duplicate_record_id"]]


def test_a_record_is_whole(ingest: Ingest) -> None:
    prompt = '  Passt "das"?\n\u0000 '
    day = ingest(
        [row(prompt=prompt, retail_info={"sku": 7}, record_id=12, shelf="B12", empty=None)]
    )
    (record,) = day.clean
    expected = hashlib.sha256(b"web\x1f12").hexdigest()[:32]
    assert record == {
        **dict.fromkeys(CLEAN.names),
        "row_id": expected,
        "source": "web",
        "record_id": "12",
        "user_id": "u1",
        "conversation_id": "c1",
        "start_time": instant("2026-11-02T10:00:00Z"),
        "end_time": instant("2026-11-02T10:00:09Z"),
        "created_date": DAY,
        "task": "chat",
        "prompt": prompt,
        "response": "Flexible grout, since wood moves.",
        "retail_info": '{"sku":7}',
        "extra": '{"shelf":"B12","empty":null}',
        "source_file": f"{DAY}.jsonl",
        "source_line": 1,
    }


TIMES: list[tuple[Any, str]] = [
    ("2026-11-02T10:00:00Z", "2026-11-02T10:00:00+00:00"),
    ("2026-11-02T10:00:00+01:00", "2026-11-02T09:00:00+00:00"),
    ("2026-11-02T10:00:00.123456+0100", "2026-11-02T09:00:00.123456+00:00"),
    ("2026-11-02 10:00:00-05", "2026-11-02T15:00:00+00:00"),
    ("2026-11-02 10:00:00 UTC", "2026-11-02T10:00:00+00:00"),
    (" 2026-11-02T10:00:00 ", "2026-11-02T09:00:00+00:00"),
    ("2026-11-02 10:00", "2026-11-02T09:00:00+00:00"),
    ("2026-11-02T10:00:00,25Z", "2026-11-02T10:00:00.25+00:00"),
    ("20261102T100000Z", "2026-11-02T10:00:00+00:00"),
    ("20261102T1000+0100", "2026-11-02T09:00:00+00:00"),
    ("20261102T100000,5-05", "2026-11-02T15:00:00.5+00:00"),
    ("20261102", "2026-11-01T23:00:00+00:00"),
    ("2026-11-02T24:00Z", "2026-11-03T00:00:00+00:00"),
    ("20261102T240000", "2026-11-02T23:00:00+00:00"),
    ("2026-11-02", "2026-11-01T23:00:00+00:00"),
    (1793613600, "2026-11-02T10:00:00+00:00"),
    ("1793613600", "2026-11-02T10:00:00+00:00"),
    (1793613600.25, "2026-11-02T10:00:00.25+00:00"),
    (1793613600123, "2026-11-02T10:00:00.123+00:00"),
    (1.793613600123e12, "2026-11-02T10:00:00.123+00:00"),
    ("1793613600123456", "2026-11-02T10:00:00.123456+00:00"),
    # Clocks change in Berlin: 02:30 does not exist in March and comes twice in October.
    ("2026-03-29T01:59:59", "2026-03-29T00:59:59+00:00"),
    ("2026-03-29T03:00:00", "2026-03-29T01:00:00+00:00"),
    ("2026-10-25T02:30:00", "2026-10-25T01:30:00+00:00"),
    ("2026-10-25T02:30:00+02:00", "2026-10-25T00:30:00+00:00"),
]

NO_TIMES: list[Any] = [
    "",
    None,
    "soon",
    "02.11.2026",
    "2026-13-02T10:00:00Z",
    "2026-02-30",
    "2026-11-02T25:00:00Z",
    "2026-11-02T24:00:01Z",
    "20261302T100000Z",
    "202611021000",
    "2026-11-02T10:00:60Z",
    "2026-11-02T10:00:00+25:00",
    "1999-12-31T23:59:59Z",
    "infinity",
    0,
    -1793613600,
    946684799,
    4102444800,
    99999999999,
    True,
    {"seconds": 1793613600},
]


def test_times_are_read(ingest: Ingest) -> None:
    rows = [row(record_id=i, start_time=t, end_time=...) for i, (t, _) in enumerate(TIMES)]
    day = ingest(rows, timezone="Europe/Berlin")
    read = {TIMES[int(r["record_id"])][0]: r["start_time"] for r in day.clean}
    assert read == {written: instant(expected) for written, expected in TIMES}


def test_times_are_refused(ingest: Ingest) -> None:
    day = ingest(row(record_id=i, start_time=written) for i, written in enumerate(NO_TIMES))
    assert day.clean == []
    assert [r["reasons"] for r in day.rejected] == [["malformed_timestamp"]] * len(NO_TIMES)


def test_an_unreadable_end_is_malformed_and_a_missing_one_is_not(ingest: Ingest) -> None:
    ends = [..., None, " ", "later"]
    day = ingest([row(record_id=i, end_time=end) for i, end in enumerate(ends)])
    assert [r["record_id"] for r in day.clean] == ["0", "1", "2"]
    assert [r["reasons"] for r in day.rejected] == [["malformed_timestamp"]]


@pytest.mark.parametrize(
    ("zone", "written", "date"),
    [
        ("UTC", "2026-03-28T23:30:00Z", dt.date(2026, 3, 28)),
        ("Europe/Berlin", "2026-03-28T23:30:00Z", dt.date(2026, 3, 29)),
        ("Europe/Berlin", "2026-03-29T21:59:59Z", dt.date(2026, 3, 29)),
        ("Europe/Berlin", "2026-03-29T22:00:00Z", dt.date(2026, 3, 30)),
        ("Europe/Berlin", "2026-10-25T22:59:59Z", dt.date(2026, 10, 25)),
        ("Europe/Berlin", "2026-10-25T23:00:00Z", dt.date(2026, 10, 26)),
        ("America/Los_Angeles", "2026-11-02T07:59:59Z", dt.date(2026, 11, 1)),
    ],
)
def test_the_date_is_the_suites(ingest: Ingest, zone: str, written: str, date: dt.date) -> None:
    day = ingest([row(start_time=written, end_time=...)], timezone=zone)
    assert [r["created_date"] for r in day.clean] == [date]


TRUTH: list[tuple[Any, bool | None, str | None]] = [
    *((word, True, None) for word in (True, "TRUE", "t", "Yes", "y", 1, "1", "on", " true ")),
    *((word, False, None) for word in (False, "False", "F", "no", "N", 0, "0", "OFF")),
    *((word, None, None) for word in (None, "", " ", ...)),
    ("maybe", None, '{"out_of_coverage":"maybe"}'),
    (2, None, '{"out_of_coverage":2}'),
]


def test_truth_values(ingest: Ingest) -> None:
    day = ingest(row(record_id=i, out_of_coverage=word) for i, (word, _, _) in enumerate(TRUTH))
    read = [(TRUTH[i][0], r["out_of_coverage"], r["extra"]) for i, r in enumerate(day.clean)]
    assert read == TRUTH


def test_scalars_become_text_and_objects_json(ingest: Ingest) -> None:
    (record,) = ingest(
        [row(user_id=7, tool_used=["a", "b"], agent_version=1.5, language=True, retail_info="B12")]
    ).clean
    assert record["user_id"] == "7"
    assert record["tool_used"] == '["a","b"]'
    assert record["agent_version"] == "1.5"
    assert record["language"] == "true"
    assert record["retail_info"] == '"B12"'


def test_a_missing_number_is_null_not_text(ingest: Ingest) -> None:
    nan = float("nan")
    day = ingest(
        [
            row(record_id="a", prompt=nan),
            row(record_id="b", prompt="NaN", price=1.50),
            row(record_id="c", prompt='"NaN, Infinity"', price=nan, prices=[-float("inf"), "NaN"]),
        ]
    )
    assert [r["reasons"] for r in day.rejected] == [["empty_prompt"]]
    assert [r["prompt"] for r in day.clean] == ["NaN", '"NaN, Infinity"']
    assert [r["extra"] for r in day.clean] == [
        '{"price":1.5}',
        '{"price":null,"prices":[null,"NaN"]}',
    ]


def test_synonyms_are_known(ingest: Ingest) -> None:
    renamed = {
        "message_id": "m1",
        "customerId": "u1",
        "Session-ID": "c1",
        "context_name": "shop",
        "timestamp": "2026-11-02T10:00:00Z",
        "task": "chat",
        "question": "Where?",
        "answer": "Here.",
    }
    (record,) = ingest([renamed]).clean
    fields = ("record_id", "user_id", "conversation_id", "context_id", "prompt", "response")
    assert [record[name] for name in fields] == ["m1", "u1", "c1", "shop", "Where?", "Here."]
    assert record["extra"] is None


def test_of_two_names_a_row_takes_the_one_it_fills_and_loses_neither(ingest: Ingest) -> None:
    day = ingest(
        [
            row(record_id="a", prompt="one", query="two"),
            row(record_id="b", prompt="", query="two"),
        ]
    )
    assert [r["prompt"] for r in day.clean] == ["one", "two"]
    assert [r["extra"] for r in day.clean] == ['{"query":"two"}'] * 2


def test_an_explicit_column_wins(ingest: Ingest) -> None:
    source = {
        "name": "web",
        "format": "jsonl",
        "path": "{day}.jsonl",
        "columns": {"prompt": 'it\'s/~ "said"', "source_text": "question"},
        "task": "chat",
    }
    (record,) = ingest(
        [row(**{'it\'s/~ "said"': "explicit", "question": "source", "task": ...})],
        sources=[source],
    ).clean
    assert (record["prompt"], record["source_text"]) == ("explicit", "source")
    assert (record["task"], record["extra"]) == (
        "chat",
        json.dumps({"prompt": row()["prompt"]}, separators=(",", ":")),
    )


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        (
            {"columns": {"prompt": "asked"}},
            ["suite.yaml: sources.web.columns.prompt", "'asked'", "record_id", "response"],
        ),
        ({"columns": {"promt": "prompt"}}, ["sources.web.columns", "'promt'", "prompt"]),
        ({"task": "poetry"}, ["sources.web.task", "'poetry'", "chat, translation"]),
    ],
)
def test_a_wrong_setting_is_told(
    ingest: Ingest, settings: dict[str, Any], parts: list[str]
) -> None:
    source = {"name": "web", "format": "jsonl", "path": "{day}.jsonl", **settings}
    with pytest.raises(SourceError) as error:
        ingest([row()], sources=[source])
    assert all(part in str(error.value) for part in parts), error.value


def test_rows_of_a_removed_source_are_not_lost_silently(ingest: Ingest, tmp_path: Path) -> None:
    day = ingest([row()])
    other = make_suite(
        tmp_path, sources=[{"name": "app", "format": "jsonl", "path": "{day}.jsonl"}]
    )
    with pytest.raises(SourceError, match=r"'web'.*accepted: app; materialise logs/raw again"):
        clean(other, *(day.folder / f"{n}.parquet" for n in ("raw", "clean", "rejected")), TASKS)


@pytest.mark.parametrize("content", [b"", b"\n \n", b"nothing\n"])
def test_a_day_without_records(ingest: Ingest, content: bytes) -> None:
    source = {"name": "web", "format": "jsonl", "path": "{day}.jsonl", "columns": {"prompt": "p"}}
    day = ingest(content, sources=[source])
    assert day.clean == []
    assert pq.read_schema(day.folder / "clean.parquet").equals(CLEAN)


def test_tables_are_valid_and_typed(ingest: Ingest) -> None:
    defects = [row(record_id=f"d{i}", **defect) for i, defect in enumerate(DEFECTS.values())]
    good = [row(), row(), row(record_id="r2", end_time=..., prompt=" \n Hi ")]
    day = ingest(lines([*good, *defects]) + b"x\n\xff\n")
    assert {reason for r in day.rejected for reason in r["reasons"]} == set(REASONS)
    for name, schema, valid in (
        ("raw", RAW, RAW_VALID),
        ("clean", CLEAN, CLEAN_VALID),
        ("rejected", REJECTED, REJECTED_VALID),
    ):
        path = day.folder / f"{name}.parquet"
        assert pq.read_schema(path).equals(schema)
        valid.validate(pl.read_parquet(path))


def test_odd_json_is_only_odd(ingest: Ingest) -> None:
    good = json.dumps(row())[1:].encode()
    deep = b"[" * 50_000 + b"]" * 50_000
    day = ingest(
        b'{"deep": %s, "record_id": "a", %s\n{"que\\u0000ry": 1, "": "\'", "record_id": "b", %s\n'
        b' \t{"prompt": "first wins", "record_id": "c", %s\n' % (deep, good, good, good)
    )
    assert [r["record_id"] for r in day.clean] == ["a", "b", "c"]
    assert day.clean[0]["extra"] == f'{{"deep":{deep.decode()}}}'
    assert day.clean[1]["extra"] == '{"que\\u0000ry":1,"":"\'"}'
    assert day.clean[2]["prompt"] == "first wins"


def test_too_little_memory_is_told(ingest: Ingest) -> None:
    with pytest.raises(StoreError, match="memory_limit: 1MB is too little"):
        ingest([row()], memory_limit="1MB")


def test_two_runs_give_equal_bytes(ingest: Ingest, tmp_path: Path) -> None:
    rows = [
        row(record_id=f"r{i % 24_000}", prompt="" if i % 97 == 0 else f"prompt {i}", other=i)
        for i in range(25_000)
    ]
    folders = [ingest(rows, out=out).folder for out in ("one", "two")]
    for name in ("raw", "clean", "rejected"):
        first, second = ((folder / f"{name}.parquet").read_bytes() for folder in folders)
        assert first == second
    lines_in_order = pq.read_table(folders[0] / "clean.parquet")["source_line"].to_pylist()
    assert lines_in_order == sorted(lines_in_order)
    assert not list(folders[0].glob(".*"))


def test_a_failure_leaves_the_tables_of_before(ingest: Ingest, tmp_path: Path) -> None:
    day = ingest([row()])
    before = (day.folder / "raw.parquet").read_bytes()
    (tmp_path / f"{DAY}.jsonl").unlink()
    with pytest.raises(SourceError):
        write_raw(make_suite(tmp_path), DAY, day.folder / "raw.parquet")
    assert (day.folder / "raw.parquet").read_bytes() == before
