"""Label files of every form, and what becomes of each label."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gavel.alignment.files import label_files, place_for, read_file, read_table
from gavel.alignment.labels import counts, read_labels, references, sentences, settle
from gavel.errors import LabelError

from .conftest import Scored, Write

ONE, TWO = f"{1:032x}", f"{2:032x}"
WIDE = f"""\
row_id,annotator,task,prompt,help,intent,comment
{ONE},ann,chat,a?,4,buy,so
{TWO},ann,chat,b?,,Return,
"""
LONG = f"row_id,annotator,field,value,time\n{ONE},ann,help,4,2026-11-03T10:00:00Z\n{ONE},ann,intent,buy,\n"


def cells(path: Path, **columns: str) -> list[tuple[Any, ...]]:
    return [(c.line, c.row_id, c.annotator, c.field, c.value) for c in read_file(path, columns)]


def test_wide_and_long_give_the_same_cells(write: Write) -> None:
    assert cells(write("wide.csv", WIDE)) == [
        (2, ONE, "ann", "help", "4"),
        (2, ONE, "ann", "intent", "buy"),
        (3, TWO, "ann", "intent", "Return"),
    ]
    assert cells(write("long.csv", LONG)) == [
        (2, ONE, "ann", "help", "4"),
        (3, ONE, "ann", "intent", "buy"),
    ]


def test_a_spreadsheet_of_another_country(write: Write) -> None:
    text = "\ufeff" + WIDE.replace(",", ";").replace("\n", "\r\n")
    assert cells(write("wide.csv", text)) == cells(write("plain.csv", WIDE))


def test_other_formats(write: Write, tmp_path: Path) -> None:
    row = {"row_id": ONE, "annotator": "ann", "help": 4, "intent": "buy"}
    expected = [(1, ONE, "ann", "help", 4), (1, ONE, "ann", "intent", "buy")]
    assert cells(write("a.jsonl", json.dumps(row) + "\n\n")) == expected
    # Label Studio's JSON-MIN is wide already, with columns of its own.
    flat = {
        **row,
        "id": 7,
        "annotation_id": 3,
        "lead_time": 2.5,
        "created_at": "2026-11-03T10:00:00Z",
    }
    assert cells(write("min.json", json.dumps([flat]))) == expected
    (only, _) = read_file(tmp_path / "min.json", {})
    assert only.time == "2026-11-03T10:00:00Z"
    # pandas writes what is missing as NaN.
    missing = {**row, "tone": float("nan")}
    pq.write_table(pa.Table.from_pylist([missing]), tmp_path / "a.parquet")
    assert cells(tmp_path / "a.parquet") == expected


def test_label_studio(write: Write) -> None:
    def annotation(by: Any, **more: Any) -> dict[str, Any]:
        result = [
            {"from_name": "help", "type": "rating", "value": {"rating": 4}},
            {"from_name": "intent", "type": "choices", "value": {"choices": ["buy"]}},
        ]
        return {"completed_by": by, "result": result, "created_at": "2026-11-03T10:00:00Z", **more}

    tasks = [
        {
            "id": 1,
            "data": {"row_id": ONE, "task": "chat", "prompt": "a?"},
            "annotations": [
                annotation({"id": 1, "email": "ann@shop.example"}),
                annotation(2),
                annotation(3, was_cancelled=True),
            ],
        },
        {"id": 2, "data": {"row_id": TWO}, "annotations": []},
    ]
    found = cells(write("export.json", json.dumps(tasks)))
    assert found == [
        (1, ONE, "ann@shop.example", "help", 4),
        (1, ONE, "ann@shop.example", "intent", "buy"),
        (1, ONE, "2", "help", 4),
        (1, ONE, "2", "intent", "buy"),
    ]


def test_columns_of_other_names_and_a_table_of_the_warehouse(write: Write, tmp_path: Path) -> None:
    names = {"row_id": "item", "annotator": "rater"}
    text = f"item,rater,help\n{ONE},ann,4\n"
    assert cells(write("a.csv", text), **names) == [(2, ONE, "ann", "help", "4")]
    warehouse = tmp_path / "w.duckdb"
    with duckdb.connect(str(warehouse)) as connection:
        connection.execute(
            f"CREATE TABLE ratings AS SELECT '{ONE}' AS item, 'ann' AS rater, 4 AS help"
        )
    found = [
        (c.row_id, c.annotator, c.field, c.value) for c in read_table(warehouse, "ratings", names)
    ]
    assert found == [(ONE, "ann", "help", 4)]
    with pytest.raises(LabelError, match="ratings2: cannot be read"):
        list(read_table(warehouse, "ratings2", names))
    with pytest.raises(LabelError, match="there is no such warehouse yet; publish a day first"):
        list(read_table(tmp_path / "none.duckdb", "ratings", names))


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        (
            "a.csv",
            "item,help\nx,3\n",
            "has no column row_id; found item, help; name it under alignment.columns",
        ),
        ("a.csv", "row_id,help,help\nx,3,4\n", "has two columns 'help'"),
        ("a.csv", "row_id\n" + "x" * 2_000_000, "cannot be read as csv"),
        ("a.csv", f'row_id,help\n{ONE},3\n{TWO},"4\n', "row that begins on line 3, unexpected end"),
        ("a.csv", '"row_id,help\n', "row that begins on line 1, unexpected end"),
        ("a.json", "{", "cannot be read as json"),
        ("a.parquet", "no parquet", "cannot be read as parquet"),
    ],
)
def test_a_file_that_is_no_label_file(write: Write, name: str, text: str, told: str) -> None:
    with pytest.raises(LabelError, match=told):
        list(read_file(write(name, text), {}))


@pytest.mark.parametrize(
    "row",
    [
        {"data": 1, "annotations": [{}]},
        {"data": {"row_id": "x"}, "annotations": 3},
        {"data": {"row_id": "x"}, "annotations": ["y"]},
        {"data": {"row_id": "x"}, "annotations": [{"result": ["y"]}]},
        {"data": {"row_id": "x"}, "annotations": [{"result": [{"value": 3}]}]},
        [1],
        "text",
        None,
    ],
)
def test_a_row_of_json_that_is_no_label_is_told_by_its_number(write: Write, row: Any) -> None:
    good = {"row_id": ONE, "annotator": "ann", "help": 4}
    found = list(read_file(write("a.json", json.dumps([good, row])), {}))
    assert [(c.line, c.fault) for c in found] == [(1, None), (2, "unparseable_line")]


def test_text_of_another_encoding_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("row_id,annotator,help\nx,Zoë,3\n".encode("latin-1"))
    with pytest.raises(LabelError, match=r"is not UTF-8 text .*; save it as UTF-8"):
        list(read_file(tmp_path / "a.csv", {}))


def test_a_file_takes_the_place_of_its_earlier_version_and_of_no_other(
    write: Write, tmp_path: Path
) -> None:
    folder = tmp_path / "labels"
    folder.mkdir()

    def kept(*rows: str) -> str:
        path = write("ann.csv", "\n".join(["row_id,annotator,clarity", *rows]))
        place = place_for(path, folder, {})
        place.write_bytes(path.read_bytes())
        return place.name

    assert kept("r1,ann,4") == "ann.csv"
    assert kept("r1,ann,5", "r2,ann,4") == "ann.csv", "more of the same sheet, and one corrected"
    assert kept("r8,ann,1", "r9,ann,1") == "ann_2.csv", "the sheet of another task or round"
    assert kept("r1,bob,5", "r2,bob,4") == "ann_3.csv"
    assert kept("r8,ann,2", "r9,ann,2") == "ann_2.csv"
    assert kept("r2,ann,3", "r1,ann,3") == "ann.csv"
    (folder / "ann.csv").write_text("no,label\nfile,here\n")
    assert kept("r1,ann,5", "r2,ann,4") == "ann_4.csv"
    assert [path.name for path in label_files(folder)] == [
        *("ann.csv", "ann_2.csv", "ann_3.csv", "ann_4.csv")
    ]


def test_an_empty_file_has_no_labels_and_hidden_ones_are_not_read(
    write: Write, tmp_path: Path
) -> None:
    assert cells(write("labels/empty.csv", "")) == []
    assert cells(write("labels/header.csv", "row_id,annotator,help\n")) == []
    write("labels/.hidden.csv", WIDE)
    write("labels/.sync/a.csv", WIDE)
    write("labels/note.txt", "x")
    write("labels/round 2/b.csv", WIDE)
    found = [path.name for path in label_files(tmp_path / "labels")]
    assert found == ["empty.csv", "header.csv", "b.csv"]
    assert label_files(tmp_path / "nowhere") == []


@pytest.mark.parametrize(
    ("cell", "reason", "detail"),
    [
        ({}, None, None),
        ({"value": 3.0}, None, None),
        ({"field": "tone", "value": "0,75"}, None, None),
        ({"field": "intent", "value": " buy "}, None, None),
        ({"field": "sub_intent", "value": "wrong size"}, None, None),
        ({"time": "2026-11-03T10:00:00+01:00"}, None, None),
        ({"task": "chat"}, None, None),
        ({"row_id": "x"}, "unknown_row_id", "row_id 'x' is of no scored record"),
        ({"row_id": ""}, "missing_row_id", "has no row_id"),
        ({"annotator": ""}, "missing_annotator", "annotator is empty"),
        ({"task": "translation"}, "wrong_task", "task is 'translation'; the record is of 'chat'"),
        ({"value": None}, "missing_value", "help has no value"),
        ({"value": "  "}, "missing_value", "help has no value"),
        ({"field": "hepl"}, "unknown_field", "accepted: help, tone, wit, intent, sub_intent"),
        ({"value": "good"}, "not_a_number", "help is 'good', no number"),
        ({"value": "6"}, "outside_rubric", "help is 6; accepted: whole numbers from 1 to 5"),
        ({"value": "3.5"}, "outside_rubric", "help is 3.5; accepted: whole numbers from 1 to 5"),
        ({"value": "nan"}, "outside_rubric", "help is nan"),
        ({"value": "inf"}, "outside_rubric", "help is inf"),
        ({"field": "tone", "value": "1.5"}, "outside_rubric", "accepted: numbers from 0 to 1"),
        ({"field": "intent", "value": "sell"}, "outside_rubric", "accepted: buy, Return"),
        ({"field": "intent", "value": "return"}, "outside_rubric", "write 'Return'"),
        ({"time": "yesterday"}, "malformed_time", "time is 'yesterday'; accepted: ISO 8601"),
        (
            {"fault": "unparseable_line", "value": None},
            "unparseable_line",
            "fields and header do not match",
        ),
    ],
)
def test_each_label_is_usable_or_says_why_not(
    scored: Scored, cell: dict[str, Any], reason: str | None, detail: str | None
) -> None:
    (row,) = scored.labels([cell]).to_pylist()
    assert row["reasons"] == ([] if reason is None else [reason])
    assert row["status"] == ("valid" if reason is None else "rejected")
    assert (row["detail"] is None) == (detail is None)
    assert detail is None or detail in row["detail"]


def test_a_row_with_several_faults_tells_them_all(scored: Scored) -> None:
    table = scored.labels([{"annotator": "", "value": "9", "time": "x", "task": "translation"}])
    (row,) = table.to_pylist()
    assert row["reasons"] == ["wrong_task", "missing_annotator", "malformed_time", "outside_rubric"]
    assert row["detail"].count(";") >= 3
    assert counts(table)["rejected"] == 1


def test_of_an_annotators_labels_of_one_item_the_latest_stands(scored: Scored) -> None:
    table = scored.labels(
        [
            {"value": "1", "time": "2026-11-03T12:00:00Z"},
            {"value": "2", "time": "2026-11-03T11:00:00Z"},
            {"value": "3", "annotator": "bob"},
            {"value": "4", "annotator": "bob"},
            {"value": "9", "annotator": "bob"},
            {"field": "intent", "value": "buy"},
        ]
    )
    rows = table.to_pylist()
    assert [row["status"] for row in rows] == [
        "valid",
        "rejected",
        "rejected",
        "valid",
        "rejected",
        "valid",
    ]
    assert rows[1]["reasons"] == rows[2]["reasons"] == ["duplicate_annotator"]
    assert "again, as '4', in f, line 4, which stands" in rows[2]["detail"]
    assert rows[0]["time"] == dt.datetime(2026, 11, 3, 12, tzinfo=dt.UTC)
    assert counts(table) == {
        **{"labels": 6, "usable": 3, "rejected": 3, "labelled_records": 1, "annotators": 2},
        **{"duplicate_annotator": 2, "outside_rubric": 1},
    }
    told = sentences(table, most=1)
    assert told[0].startswith("f, line 2: 'ann' labelled help of")
    assert told[1] == "and 2 more; all are in alignment/labels"


def test_a_nested_label_stands_under_the_parent_its_annotator_gave(scored: Scored) -> None:
    table = scored.labels(
        [
            {"field": "intent", "value": "buy"},
            {"field": "sub_intent", "value": "broken"},
            {"field": "intent", "value": "Return", "annotator": "bob"},
            {"field": "sub_intent", "value": "broken", "annotator": "bob"},
            {"field": "sub_intent", "value": "broken", "annotator": "cem"},
        ]
    )
    assert [row["reasons"] for row in table.to_pylist()] == [[], ["label_mismatch"], [], [], []]
    assert (
        "sub_intent 'broken' belongs under intent 'Return'; 'ann' gave 'buy'" in sentences(table)[0]
    )


def test_a_file_that_cannot_be_read_harms_no_other(scored: Scored, write: Write) -> None:
    write("labels/bad.json", "{")
    write("labels/good.csv", WIDE)
    scored.settings["alignment"]["table"] = "nothing"
    table = read_labels(scored.suite, scored.store)
    assert counts(table)["usable"] == 3
    assert counts(table)["unreadable_file"] == 2
    assert any("bad.json" in s and "cannot be read as json" in s for s in sentences(table))
    # Every cell is there, usable or not.
    assert table.num_rows == 5


@pytest.mark.parametrize(
    ("labels", "value", "settled"),
    [
        ({"ann": "x", "bob": "x", "cem": "y"}, "x", "majority"),
        ({"ann": "x", "bob": "y"}, None, "tie"),
        ({"ann": "x", "bob": "y", "lead": "y"}, "y", "adjudicator"),
        ({"ann": "x"}, "x", "single"),
        ({"lead": "y"}, "y", "adjudicator"),
        ({"ann": 3.0, "bob": 4.0}, 3.5, "mean"),
        ({"ann": 3.0, "bob": 4.0, "lead": 2.0, "chief": 1.0}, 2.0, "adjudicator"),
    ],
)
def test_adjudication(labels: dict[str, Any], value: Any, settled: str) -> None:
    found = settle(labels, ["lead", "chief"])
    assert (found.value, found.settled) == (value, settled)
    assert set(found.by_annotator) == set(labels) - {"lead", "chief"}


def test_references_are_of_the_usable_labels(scored: Scored) -> None:
    table = scored.labels(
        [{"value": "3"}, {"value": "5", "annotator": "bob"}, {"value": "7", "annotator": "cem"}]
    )
    found = references(table, [])
    assert list(found) == [("chat", "help")]
    assert found["chat", "help"][ONE].value == 4.0
