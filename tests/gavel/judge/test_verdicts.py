"""Reading an answer: a value as it stands, or a fault with a name. Nothing is guessed."""

import json
import math
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gavel.judge.verdicts import FAULTS, read_answer

from .conftest import GOOD, RUBRIC_YAML, TINY, answer, good, tiny

VALUES = {**GOOD, "helpfulness": 4.0}


def codes(text: str | None, **other: Any) -> list[str]:
    return [fault.code for fault in read_answer(answer(text, **other), TINY).faults]


def raw(name: str, literal: str) -> str:
    """The valid answer with `name`'s value spelled as `literal`."""
    return good(**{name: "HERE"}).replace('"HERE"', literal)


FENCE = "```"
JSON5 = good()[:-1] + ",}"
VALID = {
    "plain": good(),
    "white space": f"\n\t {good()} \n",
    "indented": json.dumps(GOOD, indent=2),
    "fenced": f"{FENCE}json\n{good()}\n{FENCE}",
    "fenced, no language": f"{FENCE}\n{good()}\n{FENCE}",
    "fenced on one line": f"{FENCE}json {good()} {FENCE}",
    "fence never closed": f"{FENCE}json\n{good()}",
    "prose around": f"Here is my verdict:\n{good()}\nI hope it helps.",
    "prose and fence": f"Sure!\n\n{FENCE}json\n{good()}\n{FENCE}\nDone.",
    "brace in prose, then a fence": f"As {{asked}}:\n{FENCE}json\n{good()}\n{FENCE}",
    "said twice": f"{good()}\nAgain:\n{good()}",
    "thought first": f"<think>4? {good(helpfulness=1)}</think>\n{good()}",
    "thinking first": f"<thinking>hm {{</thinking>{good()}",
    "whole number as 4.0": raw("helpfulness", "4.0"),
    "whole number as 4e0": raw("helpfulness", "4e0"),
    "extra keys": good(comment="more", overall=98989),
    "keys in another order": json.dumps(dict(reversed(GOOD.items()))),
    "escaped": good().replace("nails", "n\\u0061ils"),
}


@pytest.mark.parametrize("text", VALID.values(), ids=VALID)
def test_a_valid_answer_gives_its_values(text: str) -> None:
    reading = read_answer(answer(text), TINY)
    assert (reading.faults, reading.mended) == ([], None)
    assert reading.values == VALUES


@pytest.mark.parametrize(
    "text",
    [
        JSON5,
        good().replace('"', "'"),
        good().replace('"helpfulness"', "helpfulness"),
        good()[:-1] + " // sure\n}",
        f"Here: {JSON5}",
        f"{FENCE}json\n{JSON5}\n{FENCE}",
    ],
    ids=["trailing comma", "single quotes", "bare key", "comment", "in prose", "in a fence"],
)
def test_mended_syntax_leaves_the_values_and_is_told(text: str) -> None:
    reading = read_answer(answer(text), TINY)
    assert (reading.faults, reading.mended) == ([], "json5")
    assert reading.values == VALUES


INVALID: dict[str, tuple[str, list[str]]] = {
    "empty": ("", ["empty_response"]),
    "white space": (" \n\t", ["empty_response"]),
    "prose": ("The answer is quite good.", ["not_json"]),
    "refusal": ("I'm sorry, but I cannot evaluate this.", ["refused"]),
    "refusal, curly": ("I can’t help with that.", ["refused"]),
    "refusal as an AI": ("As an AI I do not judge.", ["refused"]),
    "a number": ("4", ["not_json"]),
    "a string": ('"4"', ["not_json"]),
    "null": ("null", ["not_json"]),
    "a list": ("[1, 2]", ["not_json"]),
    "two answers": (f"{good()} {good(helpfulness=5)}", ["not_json"]),
    "draft and final in fences": (
        f"{FENCE}json\n{good()}\n{FENCE}\nNo:\n{FENCE}json\n{good(helpfulness=1)}\n{FENCE}",
        ["not_json"],
    ),
    "draft and final in fences after a brace": (
        f"{{x:\n{FENCE}json\n{good()}\n{FENCE}\nNo:\n{FENCE}json\n{good(helpfulness=1)}\n{FENCE}",
        ["not_json"],
    ),
    "draft, then a fence": (
        f"{good(helpfulness=1)}\n{FENCE}json\n{good()}\n{FENCE}",
        ["not_json"],
    ),
    "true is not 1": (f"{good(helpfulness=1)} {good(helpfulness=True)}", ["not_json"]),
    "key twice": ('{"helpfulness": 1, ' + good()[1:], ["not_json"]),
    "key twice in JSON5": ("{'helpfulness': 1, " + JSON5[1:], ["not_json"]),
    "half a surrogate as a key, twice": ('{"\\ud800": 1, "\\ud800": 2}', ["not_json"]),
    "thoughts without end": (f"<think>maybe {good()}", ["not_json"]),
    "only thoughts": (f"<think>{good()}</think>", ["not_json"]),
    "cut": (good()[:-20], ["not_json"]),
    "cut after a value": (good()[: good().index(', "depth"')], ["not_json"]),
    "cut within an object": ('{"a": ' + good(), ["not_json"]),
    "no comma": (good().replace(', "depth"', ' "depth"'), ["not_json"]),
    "brackets": ("[" * 100_000, ["not_json"]),
    "braces": ("{" * 100_000, ["not_json"]),
    "objects": ('{"a":' * 100_000, ["not_json"]),
    "5000 digits": (raw("helpfulness", "9" * 5000), ["not_json"]),
    "4000 digits": (raw("helpfulness", "9" * 4000), ["out_of_range"]),
    "empty object": (
        "{}",
        ["missing_field"] * 6,
    ),
    "NaN": (raw("helpfulness", "NaN"), ["wrong_type"]),
    "Infinity": (raw("helpfulness", "Infinity"), ["wrong_type"]),
    "-Infinity": (raw("helpfulness", "-Infinity"), ["wrong_type"]),
    "NaN in JSON5": (raw("helpfulness", "+NaN"), ["wrong_type"]),
    "NaN where null may be": (raw("depth", "NaN"), ["wrong_type"]),
    "NaN as confidence": (raw("confidence", "NaN"), ["wrong_type"]),
    "1e999": (raw("helpfulness", "1e999"), ["out_of_range"]),
    "-1e999": (raw("depth", "-1e999"), ["out_of_range"]),
    "98989": (raw("helpfulness", "98989"), ["out_of_range"]),
    "0": (raw("helpfulness", "0"), ["out_of_range"]),
    "just above": (raw("depth", "1.0000001"), ["out_of_range"]),
    "just below": (raw("depth", "-0.0000001"), ["out_of_range"]),
    "true": (raw("helpfulness", "true"), ["wrong_type"]),
    "false": (raw("depth", "false"), ["wrong_type"]),
    "a number as text": (raw("helpfulness", '"4"'), ["wrong_type"]),
    "4.5 of whole numbers": (raw("helpfulness", "4.5"), ["wrong_type"]),
    "a list of scores": (raw("helpfulness", "[4]"), ["wrong_type"]),
    "null where a score must be": (raw("helpfulness", "null"), ["wrong_type"]),
    "null label": (raw("intent", "null"), ["wrong_type"]),
    "label as a number": (raw("intent", "1"), ["wrong_type"]),
    "unknown label": (good(intent="sell"), ["unknown_label"]),
    "label with a trailing blank": (good(intent="buy "), ["unknown_label"]),
    "label in capitals": (good(intent="Buy"), ["unknown_label"]),
    "empty label": (good(intent=""), ["unknown_label"]),
    "lookalike label": (good(intent="buу"), ["unknown_label"]),
    "nested label under another parent": (good(sub_intent="broken"), ["label_mismatch"]),
    "nested label as parent": (good(intent="nails"), ["unknown_label"]),
    "parent unknown, child known": (good(intent="x", sub_intent="broken"), ["unknown_label"]),
    "missing score": (good(helpfulness=...), ["missing_field"]),
    "missing optional score": (good(depth=...), ["missing_field"]),
    "missing label": (good(sub_intent=...), ["missing_field"]),
    "missing rationale": (good(rationale=...), ["missing_field"]),
    "rationale no text": (good(rationale=["a"]), ["wrong_type"]),
    "half a surrogate pair": (good(rationale="\ud83d"), ["wrong_type"]),
    "confidence out of bounds": (good(confidence=90), ["out_of_range"]),
    "confidence in words": (good(confidence="high"), ["wrong_type"]),
    "a wrapped answer": (json.dumps({"verdict": GOOD}), ["missing_field"] * 6),
    "several faults": (
        good(helpfulness=9, depth="x", intent="sell", acceptability=...),
        ["out_of_range", "wrong_type", "unknown_label", "missing_field"],
    ),
}


@pytest.mark.parametrize(("text", "faults"), INVALID.values(), ids=INVALID)
def test_an_invalid_answer_gives_every_fault_by_name(text: str, faults: list[str]) -> None:
    reading = read_answer(answer(text), TINY)
    assert sorted(fault.code for fault in reading.faults) == sorted(faults)
    assert all(len(fault.detail) < 400 for fault in reading.faults)
    "".join(fault.detail for fault in reading.faults).encode()  # a table can hold it


@pytest.mark.parametrize("depth", [200, 480, 500, 700, 900, 980, 990, 995, 1000, 3000, 100_000])
def test_no_depth_of_nesting_raises(depth: int) -> None:
    nested = "[" * depth + "]" * depth
    for text in (raw("helpfulness", nested), f"{raw('helpfulness', nested)} {good()}"):
        assert codes(text) in (["wrong_type"], ["not_json"])
    assert codes('{"a":' * depth + "1" + "}" * depth + ",}") != []


@pytest.mark.parametrize(
    ("other", "code"),
    [
        ({"finish_reason": "length"}, "truncated"),
        ({"refusal": "I will not."}, "refused"),
        ({"failure": "timeout", "detail": "60 s"}, "timeout"),
        ({"failure": "transport", "detail": "reset"}, "transport"),
        ({"failure": "context_overflow"}, "context_overflow"),
        ({"failure": "content_filter"}, "content_filter"),
    ],
)
def test_what_the_server_says_stands_before_the_text(other: dict[str, Any], code: str) -> None:
    assert codes(good(), **other) == [code]
    assert codes(None, **other) == [code]


def test_an_answer_without_text_is_empty() -> None:
    assert codes(None) == ["empty_response"]


def test_values_that_are_right_are_kept_beside_faults() -> None:
    reading = read_answer(answer(good(helpfulness=9)), TINY)
    assert reading.values == {name: value for name, value in GOOD.items() if name != "helpfulness"}


def test_null_is_null_where_a_dimension_is_optional() -> None:
    assert read_answer(answer(raw("depth", "null")), TINY).values["depth"] is None


def test_confidence_may_be_absent() -> None:
    for text in (good(confidence=...), good(confidence=None)):
        reading = read_answer(answer(text), TINY)
        assert reading.valid
        assert reading.values.get("confidence") is None


def test_a_rubric_without_rationale_and_labels_asks_for_none() -> None:
    plain = tiny(
        rubric_yaml=RUBRIC_YAML.replace("rationale: true", "rationale: false"), labels_yaml="{}"
    )
    reading = read_answer(answer('{"helpfulness": 4, "depth": 0.5}'), plain)
    assert reading.values == {"helpfulness": 4.0, "depth": 0.5}
    assert reading.valid


@pytest.mark.parametrize(
    "text",
    [
        f"{FENCE}json\n" + " \n" * 50_000 + "x",
        f"{FENCE}\n" * 20_000,
        "<think>" * 20_000,
        "{}" * 50_000,
        "{" + ",".join(f"k{i}: 1" for i in range(4_000)) + "}",
        "!" * 200_000 + "sorry",
    ],
    ids=["blank lines", "fences", "thoughts", "objects", "keys", "marks"],
)
def test_no_text_takes_long(text: str) -> None:
    started = time.process_time()
    read_answer(answer(text), TINY)
    assert time.process_time() - started < 10, (
        "seconds of this process alone; it takes milliseconds"
    )


LITERAL = (
    st.sampled_from(
        [
            "1",
            "5",
            "5.0",
            "4.5",
            "6",
            "-1",
            "0",
            "98989",
            "1e999",
            "NaN",
            "null",
            "true",
            '"4"',
            "[]",
            "{}",
        ]
    )
    | st.floats().map(repr)
    | st.integers().map(str)
)
BOUNDS = {"helpfulness": (1, 5), "depth": (0, 1), "confidence": (0, 1)}


@settings(max_examples=300)
@given(st.fixed_dictionaries(dict.fromkeys(BOUNDS, LITERAL)), st.booleans())
def test_a_value_read_is_the_value_written_within_its_bounds(
    literals: dict[str, str], broken: bool
) -> None:
    text = good(**dict.fromkeys(BOUNDS, "HERE"))
    for name in BOUNDS:
        text = text.replace('"HERE"', literals[name], 1)
    reading = read_answer(answer(text[:-1] + ",}" if broken else text), TINY)
    for name, value in reading.values.items():
        if name in BOUNDS and value is not None:
            low, high = BOUNDS[name]
            assert low <= value <= high
            assert value == float(literals[name]), "never clamped, never rounded"
            assert math.isfinite(value)


PIECE = st.sampled_from(
    [
        good(),
        JSON5,
        "{",
        "}",
        "[",
        '"',
        "'",
        ":",
        ",",
        "\n",
        FENCE,
        "<think>",
        "</think>",
        "NaN",
        "\\",
        "\ud800",
    ]
)


@settings(max_examples=400)
@given(st.text() | st.lists(PIECE | st.text(max_size=3), max_size=8).map("".join))
def test_any_text_gives_values_or_faults_and_never_raises(text: str) -> None:
    reading = read_answer(answer(text), TINY)
    assert {fault.code for fault in reading.faults} <= set(FAULTS)
    if reading.valid:
        assert set(GOOD) - {"confidence"} <= set(reading.values)
        assert 1 <= reading.values["helpfulness"] <= 5
