"""The published figures of real systems, and the gold dialogues, on the files of SOURCES.md."""

from __future__ import annotations

import copy
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from gavel.dialogue.acts import parse_acts
from gavel.dialogue.corpus import Corpus, plain_id
from gavel.dialogue.dstc8 import DEFINITIONS, evaluate_acts, load_act_database
from gavel.dialogue.figures import FIGURES, value
from gavel.dialogue.loading import load_corpus
from gavel.dialogue.multiwoz import evaluate
from gavel.dialogue.predictions import Predictions, Turn, read_predictions
from gavel.settings.dialogue import DialogueOptions

from .conftest import CONVLAB, MULTIWOZ, needs_convlab, needs_multiwoz


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return load_corpus(MULTIWOZ)


def figures(rows: list[dict[str, Any]], reading: str) -> dict[str, float]:
    chosen = [row for row in rows if row["reading"] == reading]
    return {
        figure.name: found
        for figure in FIGURES
        if figure.track == chosen[0]["track"] and (found := value(figure, chosen)) is not None
    }


@needs_multiwoz
@pytest.mark.parametrize(
    ("system", "options", "inform", "success", "bleu"),
    [
        ("ubar", {}, 83.4, 70.3, 17.35),
        ("soloist", {"active_domains": "slots"}, 82.3, 72.4, 13.61),
        ("soloist", {}, 81.7, 67.1, 13.61),
        ("dots", {"active_domains": "state"}, 80.4, 68.7, 16.74),
        ("dots", {}, 80.5, 70.5, 16.74),
        ("labes", {}, 68.5, 58.1, 18.98),
    ],
)
def test_published_systems_by_the_reference_reading(
    corpus: Corpus,
    system: str,
    options: dict[str, Any],
    inform: float,
    success: float,
    bleu: float,
) -> None:
    predictions = read_predictions(MULTIWOZ / "predictions" / f"{system}.json")
    found = figures(evaluate(predictions, corpus, DialogueOptions(**options)).rows, "reference")
    assert round(found["inform"], 1) == inform
    assert round(found["success"], 1) == success
    assert found["bleu"] == pytest.approx(bleu, abs=0.005)
    assert found["combined"] == pytest.approx(
        (found["inform"] + found["success"]) / 2 + found["bleu"]
    )


@needs_multiwoz
def test_missing_dialogues_fail_strictly_and_nothing_of_the_input_changes(corpus: Corpus) -> None:
    predictions = read_predictions(MULTIWOZ / "predictions" / "labes.json")
    before = copy.deepcopy(predictions)
    evaluation = evaluate(predictions, corpus, DialogueOptions())
    assert predictions == before
    strict = figures(evaluation.rows, "strict")
    # 68.5 and 58.1 of 944 are 647 and 548 of 1,000
    assert [strict["inform"], strict["success"]] == pytest.approx([64.7, 54.8])
    assert any("56 of 1,000 dialogues are missing" in note for note in evaluation.notes)


@needs_multiwoz
def test_a_slot_nobody_knows_and_a_name_of_one_letter_are_told(corpus: Corpus) -> None:
    predictions = read_predictions(MULTIWOZ / "predictions" / "soloist.json")
    told = " ".join(evaluate(predictions, corpus, DialogueOptions()).notes)
    assert "'restaurant' (1)" in told
    assert "'pmul1949' turn 7 train-departure 'b'" in told


def gold_dialogues() -> dict[str, Any]:
    with zipfile.ZipFile(CONVLAB / "test.json.zip") as archive:
        return {plain_id(k): v for k, v in json.loads(archive.read("test.json")).items()}


@needs_convlab
@needs_multiwoz
def test_gold_dialogues_by_the_evaluator_of_dstc8(tmp_path: Path) -> None:
    path = tmp_path / "gold.json"
    path.write_text("{}", encoding="utf-8")
    acts = parse_acts(path, gold_dialogues())
    rows = evaluate_acts(acts, load_act_database(CONVLAB, MULTIWOZ))
    found = {name: round(value, 2) for name, value in figures(rows, "dstc8").items()}
    assert found["precision"] == 58.66
    assert found["recall"] == 83.56
    assert found["f1"] == 66.25
    assert found["success"] == 21.5
    assert found["book"] == 0.0
    assert sum(row["book"] is not None for row in rows if row["reading"] == "dstc8") == 646
    assert len(rows) == 2_000
    assert {row["reading"] for row in rows} == {*DEFINITIONS}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("multiwoz")
    (folder / "test.json.zip").symlink_to(CONVLAB / "test.json.zip")
    (folder / "database").symlink_to(MULTIWOZ / "database")
    return load_corpus(folder)


@needs_convlab
@needs_multiwoz
def test_the_original_files_give_the_prepared_corpus(corpus: Corpus, original: Corpus) -> None:
    assert original.references == corpus.references
    assert original.states == corpus.states
    assert original.booked == corpus.booked
    for name, goal in corpus.goals.items():
        assert {d: (g.informable, sorted(g.requestable)) for d, g in goal.items()} == {
            d: (g.informable, sorted(g.requestable)) for d, g in original.goals[name].items()
        }


@needs_convlab
@needs_multiwoz
def test_the_words_people_said_come_to_what_is_published_for_the_corpus(original: Corpus) -> None:
    said = {
        name: [
            Turn(text, state) for (_, text), state in zip(turns, original.states[name], strict=True)
        ]
        for name, turns in original.texts.items()
    }
    found = figures(
        evaluate(Predictions("people", said, ""), original, DialogueOptions()).rows, "reference"
    )
    # Published for the corpus, delexicalised by the spans of 2.2: 93.7 and 90.9.
    assert found["inform"] == pytest.approx(93.7, abs=1)
    assert found["success"] == pytest.approx(90.9, abs=1)
    assert found["bleu_text"] == pytest.approx(100)
    assert found["bleu"] > 85
    assert found["entity_consistency"] > 95
