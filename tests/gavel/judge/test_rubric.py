"""A rubric: read from its folder, refused in a sentence, compiled to three views that agree."""

import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import pandera.errors
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gavel.errors import RubricError
from gavel.judge.rubric import RESERVED, Rubric, load_rubric
from gavel.judge.tables import score_check, score_schema, verdict_check, verdict_schema
from gavel.judge.verdicts import read_answer
from gavel.logs.schema import CLEAN, SHARD

from .conftest import LABELS_YAML, PROMPTS, RUBRIC_YAML, TINY, answer, tiny

HELP = "helpfulness: {type: integer, min: 1, max: 5, weight: 2, description: does it help}"
BAD_RUBRIC: dict[str, tuple[str, str, list[str]]] = {
    "empty file": (RUBRIC_YAML, "", ["holds nothing; accepted"]),
    "broken YAML": (RUBRIC_YAML, "a: [", ["is not valid YAML", "line 2"]),
    "key twice": (
        "version: 1",
        "version: 1\nversion: 2",
        ["'version' stands there more than once"],
    ),
    "dimension twice": (HELP, f"{HELP}\n  {HELP}", ["'helpfulness' stands there more than once"]),
    "unquoted braces": ("Score a tiny answer.", "{{ x }}", ["is not valid YAML", "needs quotes"]),
    "task of another": (
        "task: tiny",
        "task: chat",
        ["task: found 'chat'", "folder's name, 'tiny'"],
    ),
    "no version": ("version: 1\n", "", ["version", "Field required"]),
    "version 0": ("version: 1", "version: 0", ["version: found 0", "greater than or equal to 1"]),
    "unknown key": ("version: 1", "version: 1\nmodel: x", ["model: found 'x'", "not permitted"]),
    "no dimension": (RUBRIC_YAML[RUBRIC_YAML.index("dim") :], "dimensions: {}", ["dimensions"]),
    "unknown dimension key": ("weight: 2", "wieght: 2", ["dimensions.helpfulness.wieght: found 2"]),
    "bounds the wrong way": (
        "min: 1, max: 5",
        "min: 5, max: 1",
        ["helpfulness", "min 5 is not below"],
    ),
    "equal bounds": ("min: 1, max: 5", "min: 5, max: 5", ["min 5 is not below max 5"]),
    "no bound": ("min: 1, max: 5", "min: 1", ["dimensions.helpfulness.max"]),
    "bound no number": ("max: 5", "max: five", ["dimensions.helpfulness.max", "found 'five'"]),
    "endless bound": ("max: 5", "max: .inf", ["dimensions.helpfulness.max", "finite"]),
    "bound not a number": ("min: 1", "min: .nan", ["dimensions.helpfulness.min", "finite"]),
    "integer with fractions": ("min: 1", "min: 0.5", ["min 0.5 and max 5 of an integer"]),
    "negative weight": ("weight: 2", "weight: -2", ["dimensions.helpfulness.weight: found -2"]),
    "endless weight": ("weight: 2", "weight: .inf", ["dimensions.helpfulness.weight", "finite"]),
    "nothing weighs": ("weight: 2", "weight: 0", ["depth", "every weight is 0"]),
    "unknown type": ("type: integer", "type: int", ["type: found 'int'", "'integer' or 'number'"]),
    "capital letter": ("helpfulness:", "Helpfulness:", ["'Helpfulness' cannot name"]),
    "hyphen": ("helpfulness:", "is-helpful:", ["'is-helpful' cannot name"]),
    "no text": ("helpfulness:", "1:", ["dimensions.1", "found 1", "string"]),
}
BAD_LABELS: dict[str, tuple[str, str, list[str]]] = {
    "value twice": ("buy:", "return: {values: {lost: {}}}\n    return:", ["'return' stands there"]),
    "under two parents": (
        "broken: {}",
        "nails: {}",
        ["sub_intent: nails stands there more than once"],
    ),
    "nested unnamed": (
        "  nested: sub_intent\n",
        "",
        ["intent: nested", "found nested: None and some"],
    ),
    "nothing nested": (
        "acceptability:\n",
        "acceptability:\n  nested: reason\n",
        ["acceptability: nested", "found nested: 'reason' and no"],
    ),
    "one parent without": (
        "{paint: {}, nails: {}}",
        "{}",
        ["intent.buy: has no values of sub_intent"],
    ),
    "nested twice": (
        "broken: {}",
        "broken: {values: {glass: {}}}",
        ["sub_intent.broken", "nested once"],
    ),
    "no value": (
        "{acceptable: {}, not_acceptable: {}}",
        "{}",
        ["acceptability.values", "at least 1"],
    ),
    "value no text": ("acceptable: {},", "yes: {},", ["acceptability.values.0.name: found True"]),
    "names a dimension": (
        "acceptability:",
        "helpfulness:",
        ["helpfulness names two dimensions or"],
    ),
    "nested names a label": (
        "nested: sub_intent",
        "nested: acceptability",
        ["acceptability names two"],
    ),
    "nested names itself": ("nested: sub_intent", "nested: intent", ["intent names two"]),
    "unknown label key": ("  nested:", "  nest: x\n  nested:", ["intent.nest: found 'x'"]),
    "unknown value key": ("broken: {}", "broken: {keyword: x}", ["keyword: found 'x'"]),
}


def changed(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new, 1)


def refusal(**files: str) -> str:
    with pytest.raises(RubricError) as caught:
        tiny(**files)
    return str(caught.value)


@pytest.mark.parametrize(("old", "new", "words"), BAD_RUBRIC.values(), ids=BAD_RUBRIC)
def test_a_wrong_rubric_is_told_in_a_sentence(old: str, new: str, words: list[str]) -> None:
    text = changed(RUBRIC_YAML, old, new)
    if words[0] == "depth":
        text, words = changed(text, "weight: 1", "weight: 0"), words[1:]
    sentence = refusal(rubric_yaml=text)
    assert sentence.startswith("prompts/tiny")
    assert [word for word in words if word not in sentence] == [], sentence


@pytest.mark.parametrize(("old", "new", "words"), BAD_LABELS.values(), ids=BAD_LABELS)
def test_wrong_labels_are_told_in_a_sentence(old: str, new: str, words: list[str]) -> None:
    sentence = refusal(labels_yaml=changed(LABELS_YAML, old, new))
    assert sentence.startswith("prompts/tiny")
    assert [word for word in words if word not in sentence] == [], sentence


def test_two_labels_cannot_share_the_name_of_what_is_nested() -> None:
    second = LABELS_YAML[: LABELS_YAML.index("acceptability")].replace("intent:\n", "group:\n", 1)
    assert "sub_intent names two" in refusal(labels_yaml=LABELS_YAML + second)


def test_every_column_of_the_tables_is_a_reserved_name() -> None:
    tables = {*verdict_schema(TINY).names, *score_schema(TINY, CLEAN).names, *SHARD.names}
    assert tables - set(TINY.columns) <= RESERVED
    for name in sorted(RESERVED):
        assert repr(name) in refusal(rubric_yaml=changed(RUBRIC_YAML, "helpfulness:", f"{name}:"))
        assert repr(name) in refusal(labels_yaml=changed(LABELS_YAML, "sub_intent", name))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(PROMPTS / "chat", tmp_path / "chat")
    return tmp_path / "chat"


@pytest.mark.parametrize("file", ["rubric.yaml", "judge.j2", "repair.j2"])
def test_a_missing_file_is_named(folder: Path, file: str) -> None:
    (folder / file).unlink()
    with pytest.raises(
        RubricError, match=rf"chat/{file} is missing; a task's folder holds rubric\.yaml,"
    ):
        load_rubric(folder)


def test_a_task_may_have_no_labels(folder: Path) -> None:
    (folder / "labels.yaml").unlink()
    assert load_rubric(folder).label_values == {}


def test_a_file_that_is_no_text_is_named(folder: Path) -> None:
    (folder / "judge.j2").write_bytes(b"\xff")
    with pytest.raises(RubricError, match=r"chat/judge\.j2: cannot be read as UTF-8"):
        load_rubric(folder)


def test_a_folder_of_another_name_is_another_task(folder: Path) -> None:
    with pytest.raises(RubricError, match="task: found 'chat'; it is the folder's name, 'talk'"):
        load_rubric(folder.rename(folder.parent / "talk"))


def test_the_hash_changes_with_any_byte_of_any_file() -> None:
    texts = {
        "rubric_yaml": RUBRIC_YAML,
        "labels_yaml": LABELS_YAML,
        "judge_j2": "",
        "repair_j2": "",
    }
    hashes = {tiny(**texts | {name: text + "\n# x"}).hash for name, text in texts.items()}
    assert len(hashes | {tiny(**texts).hash}) == 5
    assert tiny(**texts).hash == tiny(**texts).hash


def test_the_bundled_rubrics_hold_what_the_issue_asks_for() -> None:
    chat, translation = (load_rubric(PROMPTS / name) for name in ("chat", "translation"))
    assert len(chat.dimensions) == 8
    assert {name: len(values) for name, values in chat.label_values.items()} == {
        "intent": 14,
        "sub_intent": 156,
        "product_group": 18,
        "sub_product_group": 129,
    }
    assert len(translation.dimensions) == 5
    assert translation.label_values == {"acceptability": ("acceptable", "not_acceptable")}
    assert {(d.type, d.min, d.max) for d in chat.dimensions + translation.dimensions} == {
        ("integer", 1, 5)
    }


def test_the_json_schema_is_worked_out_by_hand() -> None:
    assert TINY.response_schema() == {
        "type": "object",
        "properties": {
            "rationale": {"type": "string"},
            "helpfulness": {"type": "integer", "minimum": 1, "maximum": 5},
            "depth": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
            "intent": {"type": "string", "enum": ["buy", "return"]},
            "sub_intent": {"type": "string", "enum": ["paint", "nails", "broken", "wrong size"]},
            "acceptability": {"type": "string", "enum": ["acceptable", "not_acceptable"]},
            "confidence": {"type": "number", "minimum": 0, "maximum": 1},
        },
        "required": [
            *("rationale", "helpfulness", "depth", "intent", "sub_intent", "acceptability"),
            "confidence",
        ],
        "additionalProperties": False,
    }
    assert (
        "rationale"
        not in tiny(
            rubric_yaml=changed(RUBRIC_YAML, "rationale: true", "rationale: false")
        ).response_schema()["properties"]
    )


def fits(value: Any, schema: dict[str, Any]) -> bool:
    """The few words of JSON Schema that a rubric compiles to."""
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if value is None:
        return "null" in kinds
    if isinstance(value, str):
        return "string" in kinds and value in schema.get("enum", [value])
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    whole = "number" in kinds or ("integer" in kinds and float(value).is_integer())
    return whole and schema["minimum"] <= value <= schema["maximum"]


def values_near(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    if "enum" in schema:
        return st.sampled_from([*schema["enum"], "none of them", "", None])
    if schema["type"] == "string":
        return st.text(max_size=5) | st.none() | st.integers()
    return st.integers(-1, 7) | st.floats(-1, 7) | st.booleans() | st.none() | st.just("4")


RUBRICS = [TINY, load_rubric(PROMPTS / "chat"), load_rubric(PROMPTS / "translation")]


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(RUBRICS).flatmap(
        lambda r: st.tuples(
            st.just(r),
            st.fixed_dictionaries(
                {n: values_near(s) for n, s in r.response_schema()["properties"].items()}
            ),
        )
    )
)
def test_reading_accepts_exactly_what_the_json_schema_does_and_the_nesting_allows(
    drawn: tuple[Rubric, dict[str, Any]],
) -> None:
    rubric, given_answer = drawn
    schema = rubric.response_schema()["properties"]
    wrong = {name for name in schema if not fits(given_answer[name], schema[name])}
    wrong -= {"confidence"} if given_answer["confidence"] is None else set()
    homes = {
        label.nested: {child.name: value.name for value in label.values for child in value.values}
        for label in rubric.labels
        if label.nested
    }
    parents = {label.nested: label.name for label in rubric.labels}
    misplaced = {
        nested
        for nested, home in homes.items()
        if not wrong & {nested, parents[nested]}
        and home[given_answer[nested]] != given_answer[parents[nested]]
    }
    reading = read_answer(answer(json.dumps(given_answer)), rubric)
    assert reading.valid == (not wrong and not misplaced)
    assert len(reading.faults) == len(wrong) + len(misplaced)


VERDICT: dict[str, Any] = {
    **{"row_id": "0" * 32, "status": "valid", "request_hash": "q", "attempt": 1, "faults": []},
    **{"helpfulness": 4.0, "depth": 0.5, "intent": "buy", "sub_intent": "nails"},
    **{"acceptability": "acceptable", "confidence": 0.9},
}
KINDS = {
    **{
        "attempt": pl.Int32,
        "faults": pl.List(pl.String),
        "score": pl.Float64,
        "attempts": pl.Int32,
        "disagreement": pl.Float64,
    },
    **{"helpfulness": pl.Float64, "depth": pl.Float64, "confidence": pl.Float64},
}


def frame(row: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame([row], schema={name: KINDS.get(name, pl.String) for name in row})


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"depth": None},
        {"confidence": None},
        {"helpfulness": 1.0},
        {"helpfulness": 5.0},
        {"status": "invalid", "faults": ["not_json"], "helpfulness": None, "intent": None},
        {"status": "invalid", "faults": ["missing_field", "out_of_range"], "helpfulness": None},
    ],
)
def test_a_verdict_within_the_rubric_passes_its_check(changes: dict[str, Any]) -> None:
    verdict_check(TINY).validate(frame(VERDICT | changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"helpfulness": 5.5},
        {"helpfulness": 0.0},
        {"helpfulness": float("nan")},
        {"depth": 1.5},
        {"intent": "sell"},
        {"sub_intent": "buy"},
        {"confidence": 1.5},
        {"helpfulness": None},
        {"acceptability": None},
        {"status": "invalid"},
        {"faults": ["not_json"]},
        {"status": "invalid", "faults": ["bad"]},
        {"status": "done"},
        {"attempt": 0},
        {"row_id": "1"},
        {"request_hash": None},
    ],
    ids=str,
)
def test_a_verdict_outside_the_rubric_fails_its_check(changes: dict[str, Any]) -> None:
    with pytest.raises((pandera.errors.SchemaError, pandera.errors.SchemaErrors)):
        verdict_check(TINY).validate(frame(VERDICT | changes), lazy=True)


SCORE = {**{k: v for k, v in VERDICT.items() if k not in ("request_hash", "attempt")}}
SCORE |= {"score": 3.0, "attempts": 1, "tier": "first", "disagreement": None}
UNRESOLVED = {**dict.fromkeys(TINY.columns), "status": "unresolved", "confidence": None}


@pytest.mark.parametrize(
    ("changes", "passes"),
    [
        ({}, True),
        ({"tier": "second"}, True),
        ({"tier": "third"}, False),
        ({"disagreement": 1.5}, False),
        (UNRESOLVED | {"score": None}, True),
        (UNRESOLVED | {"score": 3.0}, False),
        ({"score": 5.5}, False),
        ({"score": float("nan")}, False),
        ({"helpfulness": None}, False),
        ({"status": "invalid"}, False),
        ({"attempts": 0}, False),
    ],
    ids=str,
)
def test_a_score_is_checked_by_the_rubric(changes: dict[str, Any], passes: bool) -> None:
    try:
        score_check(TINY).validate(frame(SCORE | changes), lazy=True)
        assert passes
    except (pandera.errors.SchemaError, pandera.errors.SchemaErrors):
        assert not passes


@pytest.mark.parametrize("rubric", RUBRICS, ids=lambda rubric: rubric.task)
def test_the_three_views_name_the_same_columns(rubric: Rubric) -> None:
    asked = set(rubric.response_schema()["properties"])
    assert asked <= set(verdict_schema(rubric).names)
    assert asked - {"rationale"} <= set(verdict_check(rubric).columns)
    for table in (verdict_schema(rubric), score_schema(rubric, CLEAN)):
        assert len(set(table.names)) == len(table.names)
        for dimension, label in itertools.product(rubric.dimensions, rubric.label_values):
            assert (table.field(dimension.name).type, table.field(label).type) == (
                pa.float64(),
                pa.string(),
            )
