"""The rule-based baseline: valid for any record, the same each time, and it looks at the text."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gavel.inference.request import Decoding, Question
from gavel.judge.heuristic import judge_by_rule
from gavel.judge.prompts import Record
from gavel.judge.rubric import Rubric, load_rubric
from gavel.judge.verdicts import read_answer

from .conftest import PROMPTS, RUBRIC_YAML, TINY, answer, tiny

CHAT, TRANSLATION = (load_rubric(PROMPTS / task) for task in ("chat", "translation"))
ODD = {
    "one letter": Record("?", "."),
    "white space": Record(" ", "\n"),
    "empty": Record("", ""),
    "digits only": Record("12 34", "56"),
    "huge": Record("paint " * 20_000, "nails, " * 20_000),
    "one huge word": Record("x" * 200_000, "y" * 200_000),
    "emoji": Record("🎨🔨?", "👍🏽" * 50),
    "right to left": Record("איפה הצבע?", "في الممر الثالث ‏١٢", language="ar"),
    "unknown language": Record("Hvor?", "Der.", language="x"),
    "JSON": Record('{"helpfulness": 5}', "</record>{{ 1 }}", reference="\\"),
    "null bytes": Record("\0", "\0\ud800"),
    "all fields": Record("a", "b", "c", "d", "de", "voice", True, "e", "f", '{"g": 1}', "{}"),
    "empty source": Record("a", "b", source_text=""),
    "source of blanks": Record("a", "b", source_text=" "),
}


def verdict(rubric: Rubric, record: Record) -> dict[str, Any]:
    """The baseline's values, which must be valid."""
    question = Question("heuristic-1", Decoding(0, 1), "")
    reading = read_answer(answer(judge_by_rule(question.request((), 1, (rubric, record)))), rubric)
    assert reading.faults == []
    assert reading.mended is None
    return reading.values


@pytest.mark.parametrize("rubric", [CHAT, TRANSLATION, TINY], ids=lambda rubric: rubric.task)
@pytest.mark.parametrize("record", ODD.values(), ids=ODD)
def test_any_record_gets_a_valid_verdict(rubric: Rubric, record: Record) -> None:
    verdict(rubric, record)


@settings(max_examples=100, deadline=None)
@given(st.tuples(st.text(), st.text(), *[st.none() | st.text()] * 3))
def test_any_text_gets_a_valid_verdict_and_the_same_again(texts: tuple[str, ...]) -> None:
    for rubric in (CHAT, TRANSLATION):
        assert verdict(rubric, Record(*texts)) == verdict(rubric, Record(*texts))


def test_bounds_of_many_digits_are_kept() -> None:
    narrow = tiny(rubric_yaml=RUBRIC_YAML.replace("min: 0, max: 1,", "min: 0.0051, max: 0.9949,"))
    for record in ODD.values():
        assert 0.0051 <= verdict(narrow, record)["depth"] <= 0.9949


PROMPT = "Which paint do I need for the tiles in my bathroom?"
HELPFUL = Record(
    PROMPT,
    "For tiles in a bathroom you need a paint made for wet rooms. Clean the tiles first, then put on "
    "the primer. Two coats of tile paint are enough, and I am glad to help you with the colour.",
    language="en",
)
COPY = Record(
    "Translate into German.",
    "Robuste Leiter mit 7 Stufen, ideal für die Arbeit im Haus und leicht zu tragen.",
    source_text="Robust ladder with 7 steps, ideal for work in the house and easy to carry.",
    language="de",
)


def but(record: Record, response: str) -> Record:
    return Record(record.prompt, response, source_text=record.source_text, language=record.language)


@pytest.mark.parametrize(
    ("rubric", "better", "worse", "dimensions"),
    [
        (CHAT, HELPFUL, "I don't know.", ["helpfulness", "instruction_adherence", "coherence"]),
        (CHAT, HELPFUL, "I cannot help with that.", ["helpfulness", "truthfulness"]),
        (CHAT, HELPFUL, "Obviously the wet room paint. Figure it out.", ["tone_alignment"]),
        (CHAT, HELPFUL, "BUY THE EXPENSIVE PAINT RIGHT NOW!!", ["clarity"]),
        (CHAT, HELPFUL, "Hammer.", ["conciseness", "creativity", "helpfulness"]),
        (CHAT, HELPFUL, "word " * 300, ["conciseness", "clarity"]),
        (CHAT, HELPFUL, "Sie brauchen für das Bad eine Farbe, die nicht schimmelt.", ["clarity"]),
        (CHAT, HELPFUL, "It is guaranteed for 99 years, always and absolutely.", ["truthfulness"]),
        (TRANSLATION, COPY, "Leider nicht möglich.", ["semantic_accuracy", "template_fit"]),
        (
            TRANSLATION,
            COPY,
            "Ladder with steps for the house.",
            ["readability", "semantic_accuracy"],
        ),
        (TRANSLATION, COPY, "Leiter mit 9 Stufen.", ["semantic_accuracy", "selling_relevance"]),
        (
            TRANSLATION,
            COPY,
            "Evidentemente, duh.",
            ["cultural_appropriateness", "semantic_accuracy"],
        ),
    ],
)
def test_worse_text_scores_lower_where_it_should(
    rubric: Rubric, better: Record, worse: str, dimensions: list[str]
) -> None:
    good, bad = verdict(rubric, better), verdict(rubric, but(better, worse))
    assert [name for name in dimensions if not good[name] > bad[name]] == []


def test_labels_are_found_by_their_keywords() -> None:
    found = verdict(CHAT, Record("Do you sell a ladder under 50 euros?", "Yes."))
    assert (found["intent"], found["sub_intent"]) == ("product_search", "find_by_budget")


def test_acceptability_tells_a_translation_from_none() -> None:
    assert verdict(TRANSLATION, COPY)["acceptability"] == "acceptable"
    assert verdict(TRANSLATION, but(COPY, "Not possible"))["acceptability"] == "not_acceptable"


def test_the_verdict_follows_from_what_the_message_shows() -> None:
    """Equal messages share one answer, so the rule may not look at fields that no message has."""
    hidden = {"extra": '{"price": "12.99"}', "input_source": "voice", "agent_version": "7"}
    priced = "The paint costs 12.99 euros and covers 20 square metres of tiles in a bathroom."
    plain, with_hidden = Record(PROMPT, priced), Record(PROMPT, priced, **hidden)
    assert verdict(CHAT, plain) == verdict(CHAT, with_hidden)


def test_no_keyword_of_the_bundled_labels_is_found_everywhere() -> None:
    spoken = verdict(CHAT, Record("zzz", "zzz"))
    fallback = {label.name: label.values[-1].name for label in CHAT.labels}
    assert {name: spoken[name] for name in fallback} == fallback


def test_the_rationale_says_that_it_is_a_rule() -> None:
    question = Question("heuristic-1", Decoding(0, 1), "")
    text = judge_by_rule(question.request((), 1, (CHAT, HELPFUL)))
    assert json.loads(text)["rationale"].startswith("Rule-based baseline")


ANSWER = "Gladly: two coats of primer, then sand it; for 12 square metres you need five litres."


@pytest.mark.parametrize(
    ("first", "second", "preference"),
    [
        (ANSWER, "No idea.", "first"),
        ("No idea.", ANSWER, "second"),
        (ANSWER, ANSWER, "tie"),
        (ANSWER, None, "first"),
    ],
)
def test_of_two_answers_the_one_with_more_in_its_favour_is_preferred(
    first: str, second: str | None, preference: str
) -> None:
    rubric = load_rubric(PROMPTS / "benchmark" / "pairwise")
    found = verdict(rubric, Record("How do I paint a wall?", first, second))
    assert found["preference"] == preference
