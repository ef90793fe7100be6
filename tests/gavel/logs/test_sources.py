"""Where rows come from: formats, paths, days, and what is said where something is missing."""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import io
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gavel.errors import SourceError
from gavel.logs import readers
from gavel.logs.sources import days, fingerprint, read_raw

from .conftest import DAY, GOOD, Ingest, lines, make_suite, row

HEADER = ",".join(GOOD).encode()


def source(**changes: Any) -> dict[str, Any]:
    return {"name": "web", "format": "jsonl", "path": "{day}.jsonl", **changes}


def as_csv(rows: list[dict[str, Any]], end: str = "\n") -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]), lineterminator=end)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def raw(folder: Path, day: dt.date = DAY, **settings: Any) -> list[dict[str, Any]]:
    suite = make_suite(folder, sources=[source(**settings)], timezone="Europe/Berlin")
    return [r for batch in read_raw(suite.sources[0], day, suite) for r in batch.to_pylist()]


@pytest.mark.parametrize("block", [1, 7, 1 << 20])
def test_jsonl_lines_are_verbatim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(readers, "BLOCK", block)
    content = b'\xef\xbb\xbf{"a": 1} \r\n\n  \n{"b"\xff\n\r\nlast\x0b{'
    if block < 3:
        content = content.removeprefix(b"\xef\xbb\xbf")
    (tmp_path / f"{DAY}.jsonl").write_bytes(content)
    assert [(r["line"], r["content"], r["record"]) for r in raw(tmp_path)] == [
        (1, b'{"a": 1} ', None),
        (4, b'{"b"\xff', None),
        (6, b"last\x0b{", None),
    ]


def test_gzip_of_several_members(ingest: Ingest, tmp_path: Path) -> None:
    text = lines([row(record_id=f"r{i}") for i in range(3)])
    parts = [text[:40], text[40:300], text[300:]]
    (tmp_path / f"{DAY}.jsonl.gz").write_bytes(b"".join(map(gzip.compress, parts)))
    day = ingest(sources=[source(path="{day}.jsonl.gz")])
    assert [r["record_id"] for r in day.clean] == ["r0", "r1", "r2"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("packed", [False, True])
def test_csv_fields_may_span_lines(ingest: Ingest, tmp_path: Path, end: str, packed: bool) -> None:
    rows = [
        row(record_id="a", prompt=f'He said "hm",{end}{end}then left', colour="blau, grün"),
        row(record_id="b", prompt="", colour=""),
    ]
    content = b"\xef\xbb\xbf" + as_csv(rows, end) + end.encode() * 2
    name = "{day}.csv.gz" if packed else "{day}.csv"
    (tmp_path / name.format(day=DAY)).write_bytes(gzip.compress(content) if packed else content)
    day = ingest(sources=[source(format="csv", path=name)])
    assert [(r["prompt"], r["extra"]) for r in day.clean] == [
        (rows[0]["prompt"], '{"colour":"blau, grün"}')
    ]
    assert [(r["line"], r["content"]) for r in day.raw] == [
        (2, as_csv(rows[:1], end).split(end.encode(), 1)[1].removesuffix(end.encode())),
        (5, day.rejected[0]["content"]),
    ]
    assert [r["reasons"] for r in day.rejected] == [["empty_prompt"]]


def test_a_broken_csv_row_costs_a_row(ingest: Ingest, tmp_path: Path) -> None:
    good = b"%s,u,c,2026-11-02 10:00,,chat,Hi,Hello"
    broken = [
        b"x,too,few",
        good % b"x" + b",too,many",
        b'"x"y,u,c,2026-11-02 10:00,,chat,Hi,Hello',
        b"x,u,c,2026-11-02 10:00,,chat,\xff,Hello",
        b'x,u,c,2026-11-02 10:00,,chat,Hi,"never closed',
    ]
    content = [HEADER]
    for number, line in enumerate(broken):
        content += [line, good % str(number).encode()]
    (tmp_path / f"{DAY}.csv").write_bytes(b"\n".join(content))
    day = ingest(sources=[source(format="csv", path="{day}.csv")])
    assert [r["record_id"] for r in day.clean] == ["0", "1", "2", "3", "4"]
    assert [r["content"] for r in day.rejected] == broken
    assert [r["source_line"] for r in day.rejected] == [2, 4, 6, 8, 10]
    assert [r["reasons"] for r in day.rejected] == [
        ["invalid_utf8"] if b"\xff" in line else ["unparseable_line"] for line in broken
    ]


def test_parquet_with_types(ingest: Ingest, tmp_path: Path) -> None:
    start = dt.datetime(2026, 11, 2, 10, tzinfo=dt.UTC)
    table = pa.table(
        {
            "ID": pa.array([1, 2, 3]),
            "id": pa.array(["x", "y", "z"]),
            "user_id": pa.array(["u", "u", None]),
            "session_id": ["c"] * 3,
            "start_time": pa.array([start] * 3, pa.timestamp("ns", "America/New_York")),
            "end_time": pa.array([dt.datetime(2026, 11, 2, 12)] * 3, pa.timestamp("us")),
            "task": pa.array(["chat"] * 3).dictionary_encode(),
            "prompt": ["Hi", "Hi", "Hi"],
            "response": ["Hello"] * 3,
            "ooc": [True, False, None],
            "price": pa.array([1.5, float("nan"), None]),
            "retail_info": pa.array([{"sku": 1, "tags": ["a"]}] * 3),
        }
    )
    pq.write_table(table, tmp_path / f"{DAY}.parquet")
    day = ingest(
        sources=[source(format="parquet", path="{day}.parquet", columns={"record_id": "ID"})],
        timezone="Europe/Berlin",
    )
    assert [r["record_id"] for r in day.clean] == ["1", "2"]
    assert {r["start_time"] for r in day.clean} == {start}
    assert {r["end_time"] for r in day.clean} == {start + dt.timedelta(hours=1)}
    assert [r["out_of_coverage"] for r in day.clean] == [True, False]
    assert [r["retail_info"] for r in day.clean] == ['{"sku":1,"tags":["a"]}'] * 2
    assert [json.loads(r["extra"]) for r in day.clean] == [
        {"id": "x", "price": 1.5},
        {"id": "y", "price": None},
    ]
    (rejected,) = day.rejected
    assert (rejected["source_line"], rejected["reasons"]) == (3, ["missing_user_id"])
    assert json.loads(rejected["content"])["ID"] == 3


def test_files_by_glob_in_order(ingest: Ingest, tmp_path: Path) -> None:
    for name in ("logs/2026/11/02/b-1.jsonl", "logs/2026/11/02/a-9.jsonl"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(lines([row(record_id=name)]))
    for other in ("logs/2026/11/02/.c.jsonl", "logs/2026/11/02/deep/d.jsonl", "logs/x.jsonl"):
        (tmp_path / other).parent.mkdir(exist_ok=True)
        (tmp_path / other).write_bytes(lines([row(record_id="not this")]))
    day = ingest(sources=[source(path="logs/{day:%Y/%m/%d}/*.jsonl")])
    assert [(r["record_id"], r["source_file"]) for r in day.clean] == [
        (name, name) for name in ("logs/2026/11/02/a-9.jsonl", "logs/2026/11/02/b-1.jsonl")
    ]


def test_a_uri_is_read(ingest: Ingest, tmp_path: Path) -> None:
    (tmp_path / f"{DAY}.jsonl").write_bytes(lines([row()]))
    day = ingest(sources=[source(path=f"file://{tmp_path}/{{day}}.jsonl")])
    assert [r["source_file"] for r in day.clean] == [f"file://{tmp_path}/{DAY}.jsonl"]


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("{day}.jsonl", ["2026-11-03.jsonl", "2026-11-01.jsonl", "2026-13-01.jsonl", "x.jsonl"]),
        ("{day:%Y/%m/%d}/*.jsonl", ["2026/11/01/a.jsonl", "2026/11/03/b.jsonl", "2026/11/b.jsonl"]),
        ("y{day:%Y}/{day}.jsonl", ["y2026/2026-11-01.jsonl", "y2026/2026-11-03.jsonl",
                                   "y2025/2026-11-02.jsonl"]),
        ("{day:%Y%j}-*.jsonl", ["2026305-1.jsonl", "2026305-2.jsonl", "2026307-1.jsonl"]),
    ],
)  # fmt: skip
def test_days_that_exist(tmp_path: Path, path: str, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    suite = make_suite(tmp_path, sources=[source(path=path)])
    assert days(suite.sources[0], suite) == [dt.date(2026, 11, 1), dt.date(2026, 11, 3)]


def test_a_fingerprint_changes_with_the_files(tmp_path: Path) -> None:
    suite = make_suite(tmp_path, sources=[source(path="{day}*.jsonl")])

    def now() -> str | None:
        return fingerprint(suite.sources[0], DAY, suite)

    path = tmp_path / f"{DAY}.jsonl"
    seen = [now()]
    path.write_bytes(b"{}\n")
    seen.append(now())
    assert now() == seen[-1]
    os.utime(path, ns=(1, 1))
    seen.append(now())
    (tmp_path / f"{DAY}-late.jsonl").write_bytes(b"{}\n")
    seen.append(now())
    assert seen[0] is None
    assert len(set(seen)) == 4


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_rows_of_a_day_by_their_date(tmp_path: Path, form: str) -> None:
    times = {
        "before": "2026-11-01T22:59:59Z",
        "first": "2026-11-01T23:00:00Z",
        "noon": "1793620800",
        "last": "2026-11-02 23:59:59",
        "after": "2026-11-02T23:00:00Z",
        "unread": "soon",
    }
    rows = [row(record_id=name, start_time=time) for name, time in times.items()]
    (tmp_path / "all").write_bytes(lines(rows) if form == "jsonl" else as_csv(rows))

    def of(day: int) -> list[str]:
        found = raw(
            tmp_path, dt.date(2026, 11, day), format=form, path="all", date_column="start_time"
        )
        return [json.loads(r["record"] or r["content"])["record_id"] for r in found]

    # The suite begins on the 1st, which is also the first day with a row.
    assert [of(day) for day in (1, 2, 3, 4)] == [
        ["before", "unread"],
        ["first", "noon", "last"],
        ["after"],
        [],
    ]


def test_rows_without_any_date_are_of_the_first_day(tmp_path: Path) -> None:
    (tmp_path / "all").write_bytes(lines([row(start_time="soon")]) + b"no json\n")
    by_day = [
        len(raw(tmp_path, dt.date(2026, 11, day), path="all", date_column="start_time"))
        for day in (1, 2)
    ]
    assert by_day == [2, 0]


@pytest.mark.parametrize(
    ("changes", "content", "parts"),
    [
        ({}, None, ["suite.yaml: sources.web.path", "2026-11-02.jsonl", "{day:%Y/%m/%d}"]),
        ({"path": "logs/{day:%d}/*"}, None, ["sources.web.path", "'logs/{day:%d}/*'", "%Y, %m"]),
        ({"path": "no/{day}/*"}, None, ["sources.web.path", "no/2026-11-02/*", "accepted"]),
        ({"path": "foo://b/{day}"}, None, ["sources.web.path", "foo://b/", "gs://"]),
        ({"format": "csv"}, b"", ["2026-11-02.jsonl cannot be read as csv", "it is empty"]),
        ({"format": "csv"}, HEADER + b"\r1,2\r", ["carriage return alone"]),
        ({"format": "csv"}, gzip.compress(HEADER, mtime=0), ["compressed with gzip", "end in .gz"]),
        ({"format": "csv"}, HEADER.decode().encode("utf-16"), ["it is UTF-16; save it as UTF-8"]),
        (
            {},
            gzip.compress(lines([row()]), mtime=0),
            ["cannot be read as jsonl", "compressed with gzip"],
        ),
        ({}, b"PK\x03\x04xl", ["a zip archive or a spreadsheet"]),
        ({"format": "csv"}, b"a,b\n1,2\n", ["columns.user_id", "found: a, b"]),
        ({"format": "csv"}, HEADER.replace(b"task", b"kind"), ["columns.task", "kind", "task)"]),
        ({"format": "csv"}, HEADER + b",prompt", ["2026-11-02.jsonl", "repeats", "prompt"]),
        (
            {"format": "csv", "columns": {"prompt": "asked"}},
            HEADER,
            ["suite.yaml: sources.web.columns.prompt", "'asked'", "response"],
        ),
        (
            {"format": "csv", "path": "2026-11-02.jsonl", "date_column": "when"},
            HEADER,
            ["suite.yaml: sources.web.date_column", "'when'", "start_time"],
        ),
        (
            {"path": "2026-11-02.jsonl", "date_column": "when"},
            lines([row()]),
            ["suite.yaml: sources.web.date_column", "'when'"],
        ),
        ({"format": "parquet"}, b"PAR0", ["2026-11-02.jsonl cannot be read as parquet"]),
    ],
)
def test_what_is_missing_is_told(
    tmp_path: Path, changes: dict[str, Any], content: bytes | None, parts: list[str]
) -> None:
    if content is not None:
        (tmp_path / f"{DAY}.jsonl").write_bytes(content)
    with pytest.raises(SourceError) as error:
        raw(tmp_path, **changes)
    message = str(error.value)
    assert "\n" not in message
    assert [part for part in parts if part not in message] == [], message


def test_a_file_cut_short_is_told(tmp_path: Path) -> None:
    packed = gzip.compress(os.urandom(100_000))
    for content in (packed[:-100], b"plain\n"):
        (tmp_path / f"{DAY}.jsonl.gz").write_bytes(content)
        with pytest.raises(SourceError, match=r"2026-11-02\.jsonl\.gz cannot be read as jsonl"):
            raw(tmp_path, path="{day}.jsonl.gz")


def test_a_day_that_one_source_lacks(ingest: Ingest) -> None:
    sources = [source(), source(name="app", path="app/{day}.jsonl")]
    with pytest.raises(SourceError, match=r"sources\.app\.path: .*though web has files"):
        ingest([row()], sources=sources)


ROWS = st.lists(
    st.one_of(
        st.binary(max_size=12),
        st.builds(
            lambda **changes: json.dumps(row(**changes)).encode(),
            record_id=st.sampled_from([1, "1", "2", None, ...]),
            user_id=st.sampled_from(["u", ""]),
            start_time=st.sampled_from([0, 1793613600, "2026-11-02", ""]),
            task=st.sampled_from(["chat", "translation", "other"]),
            prompt=st.text(max_size=5),
        ),
    ),
    max_size=30,
)


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(ROWS)
def test_no_row_is_lost(ingest: Ingest, rows: list[bytes]) -> None:
    day = ingest(b"\n".join(rows))
    written = [line for row in rows for line in row.split(b"\n")]
    kept = [line.removesuffix(b"\r") for line in written]
    assert [r["content"] for r in day.raw] == [line for line in kept if line.strip()]
    places = sorted(r["source_line"] for r in [*day.clean, *day.rejected])
    assert places == [r["line"] for r in day.raw]
    assert all(r["reasons"] for r in day.rejected)
    assert len({r["row_id"] for r in day.clean}) == len(day.clean)
