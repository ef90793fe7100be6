"""Verification: every ground by a table, what is no ground, and whose decision wins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gavel.errors import FashionError
from gavel.fashion.conversation import Conversation
from gavel.fashion.dataset import tells_all
from gavel.fashion.verify import (
    Check,
    _errors,
    _format,
    decide,
    flags,
    flags_of_translation,
    read_decisions,
)
from gavel.fashion.vocabulary import Vocabulary

from .conftest import goal, said, searched, talk, wrote

FINE = [searched("black nike shoes", "black Nike shoes"), searched("size m", "x"), said("ok")]
THEME = {"theme": "party in a Greek taverna"}


@pytest.mark.parametrize(
    ("conversation", "grounds"),
    [
        (talk(*FINE), []),
        (talk(*FINE, outcome="broken"), ["wrong_format"]),
        (talk(*FINE, outcome="turn_limit"), ["customer_behaviour"]),
        (talk(wrote("black nike shoes", "Which?"), said("ok")), ["customer_behaviour"]),
        (talk(wrote("nike shoes", "Which?"), outcome="no_progress"), []),
        (talk(searched("Error 500 nike shoes", "x")), ["error_text"]),
        (talk(searched("nike shoes, as an AI language model", "x")), ["error_text"]),
        (talk(wrote("nike shoes", "Traceback (most recent call last)"), *FINE), ["error_text"]),
        (talk(searched("nike <|im_end|>", "x")), ["error_text"]),
        (talk(searched("I have 500 nike shoes", "x")), []),
        (talk(searched("nike shoes " + "and so on " * 10, "x")), ["customer_behaviour"]),
        (
            talk(searched("nike shoes " + "and so on " * 10, "x"), goal=goal(personality="rude")),
            [],
        ),
        (
            talk(searched("black nike shoes size M", "x"), goal=goal(personality="indecisive")),
            ["customer_behaviour"],
        ),
        (talk(searched("red nike shoes", "x")), ["unfaithful"]),
        (talk(searched("hello", "x")), ["unfaithful"]),
        # Words of ordinary talk contradict nothing, nor do attributes that the goal leaves open.
        (talk(searched("nike shoes, a small question", "x")), []),
        (talk(searched("leather nike shoes", "x")), []),
        (talk(searched("party in a taverna", "x"), goal=goal(**THEME)), []),
        (talk(searched("Greek food", "x"), goal=goal(**THEME)), ["unfaithful"]),
    ],
)
def test_the_grounds_that_rules_find(
    conversation: Conversation, grounds: list[str], vocabulary: Vocabulary
) -> None:
    found = flags(conversation, vocabulary, "not_json: x")
    assert [ground for ground, _ in found] == grounds
    assert all(reason for _, reason in found)


L = {"size": "L", "colour": "black", "apparel": "shoes"}


@pytest.mark.parametrize(
    ("said_", "reason"),
    [
        # Black Nike shoes in size M.
        ("red nike shoes", "asked for 'red', the goal says 'black'"),
        ("black converse shoes", "asked for 'Converse', the goal says 'Nike'"),
        ("black nike coat", "asked for 'coat', the goal says 'shoes'"),
        ("black nike shoes in size l", "asked for 'L', the goal says 'M'"),
        ("not black, i want white nike shoes", "asked for 'white', the goal says 'black'"),
        ("i m looking for black nike shoes", None),
        ("black nike shoes, not white ones", None),
        ("nike shoes, not white ones", None),
        ("nike shoes but no converse please", None),
        ("nike shoes without red", None),
        ("black nike shoes for the Red Bull run", None),
        ("black nike shoes to go with my coat and jeans", None),
        ("black nike shoes, medium", None),
        ("it s a gift, black nike shoes", None),
        ("not sure yet, red nike shoes", "asked for 'red', the goal says 'black'"),
        ("no idea, maybe converse shoes", "asked for 'Converse', the goal says 'Nike'"),
    ],
)
def test_what_contradicts_the_goal(said_: str, reason: str | None, vocabulary: Vocabulary) -> None:
    found = [why for ground, why in flags(talk(searched(said_, "x")), vocabulary, None)]
    assert found == ([] if reason is None else [reason])


@pytest.mark.parametrize(
    ("said_", "complete"),
    [
        ("i m looking for black nike shoes", False),
        ("i m looking for black nike shoes, m", True),
        ("i'm looking for black nike shoes in m", True),
        ("black nike shoes size m", True),
    ],
)
def test_the_rest_of_a_contraction_is_no_size(said_: str, complete: bool) -> None:
    assert tells_all(talk(searched(said_, "x"))) is complete


def test_a_contraction_contradicts_no_size(vocabulary: Vocabulary) -> None:
    for text in ("i m looking for black shoes", "it s a gift, black shoes"):
        conversation = talk(searched(text, "x"), goal=goal(properties=L))
        assert flags(conversation, vocabulary, None) == []


ERRORS = [
    "I'm just a language model, I have no size",
    "I am an AI and cannot buy shoes",
    "I cannot roleplay as a customer.",
    "I'm sorry, but I can't help with that request.",
    "I’m sorry, I cannot assist with that.",
    "Sorry, I am unable to assist you with this request!",
    "I cannot write as the customer",
    "I can't play the role of a customer.",
    "Sorry, I am an AI language model and have no clothes.",
    "As an AI, I have no size.",
    "As an AI language model I cannot translate this. Error 500",
    "Error: 503 Service Unavailable",
    "502 Bad Gateway",
    "Request timed out",
    "Sorry, can't help with that",
    "I really cannot help with that.",
    "I'm unable to translate the following",
    "<think>the customer wants shoes</think> shoes",
    "### Response: shoes",
    "null",
    "[object Object]",
    "Als KI kann ich keine Kleidung tragen.",
    "Als Sprachmodell habe ich keine Größe.",
    "Das kann ich leider nicht. Ich bin ein Sprachmodell.",
    "Ich kann diesen Text nicht übersetzen.",
    "Entschuldigung, dabei kann ich Ihnen leider nicht helfen.",
    "Fehler 503",
    "En tant qu'IA, je ne porte pas de vêtements.",
    "Désolé, je suis un modèle de langage.",
    "Je ne peux pas traduire ce message.",
    "Désolé, je ne peux pas vous aider avec cette demande.",
    "Erreur 500",
    "Ως τεχνητή νοημοσύνη δεν φοράω ρούχα.",
    "Είμαι ένα γλωσσικό μοντέλο.",
    "Δεν μπορώ να μεταφράσω αυτό το μήνυμα.",
    "Λυπάμαι, δεν μπορώ να σας βοηθήσω με αυτό.",
    "Σφάλμα 500",
]
CONVERSATION = [
    "I am an AI engineer and need a jacket",
    "I'm an Aigle fan",
    "Sorry, I cannot see your orders. Which colour would you like?",
    "I can't help you with discounts, but here are some shoes.",
    "I'm sorry, I can't help with that discount. Shall I look for shoes?",
    "I am not able to assist with orders; which size do you need?",
    "I can't help it, I love black.",
    "no, black won't help",
    "that cannot help",
    "I cannot translate sizes, sorry",
    "can you help me",
    "cannot wait, show me more",
    "are you an ai or a person",
    "you are only a bot, right?",
    "as a model I need to look good",
    "I have 500 nike shoes",
    "is 404 a size?",
    "my error, I meant black",
    "I timed it badly, the party is today",
    "none",
    "black :) ### just kidding",
    "I write to the customer service if this goes on",
    "Ich kann mich nicht entscheiden.",
    "Da kann ich Ihnen helfen: welche Farbe?",
    "Bei Rabatten kann ich Ihnen nicht helfen, aber bei der Größe.",
    "Null Ahnung, was ich anziehen soll",
    "mein Fehler, ich meinte schwarz",
    "Je ne peux pas me décider.",
    "Je ne peux pas vous aider pour les remises, mais voici des chaussures.",
    "un modèle en laine, s'il vous plaît",
    "erreur de ma part, en noir",
    "Δεν μπορώ να αποφασίσω.",
    "Δεν μπορώ να σας βοηθήσω με εκπτώσεις, αλλά ποιο χρώμα θέλετε;",
    "ως δώρο, ένα μαύρο μπουφάν",
    "λάθος μου, το ήθελα μαύρο",
    "ως μοντέλο χρειάζομαι κάτι κομψό",
    "as an ai you should know that",
]


@pytest.mark.parametrize("text", ERRORS)
def test_errors_and_refusals_are_found_in_either_part(text: str) -> None:
    for conversation in (talk(searched(text, "x")), talk(wrote("black nike shoes", text))):
        assert [ground for ground, _ in _errors(conversation)] == ["error_text"]


@pytest.mark.parametrize("text", CONVERSATION)
def test_conversation_is_no_error(text: str) -> None:
    talked = talk(wrote(text, text), searched(text, "x"))
    assert [*_errors(talked), *_format(talked, None)] == []


@pytest.mark.parametrize(
    ("text", "switched"),
    [
        ("Sure! How can I help you find shoes today?", True),
        ("Here are some options: 1. black shoes", True),
        ("Here are a few great suggestions for you", True),
        ("Wie kann ich Ihnen heute weiterhelfen?", True),
        ("Hier sind einige Vorschläge: 1. Schuhe", True),
        ("Bonjour, comment puis-je vous aider ?", True),
        ("Voici quelques suggestions :", True),
        ("Γεια σας, πώς μπορώ να σας βοηθήσω;", True),
        ("Ορίστε μερικές επιλογές: 1.", True),
        ("how can you help me", False),
        ("can you show me some options", False),
        ("here is what I want: black shoes", False),
        ("are these the results?", False),
        ("Können Sie mir helfen?", False),
        ("Haben Sie noch ein paar Vorschläge?", False),
        ("Pouvez-vous m'aider ?", False),
        ("avez-vous des suggestions ?", False),
        ("Μπορείτε να με βοηθήσετε;", False),
        ("έχετε άλλες προτάσεις;", False),
    ],
)
def test_what_only_the_shop_says_is_a_switch_of_roles(text: str, switched: bool) -> None:
    found = list(_format(talk(searched(text, "x")), None))
    assert [ground for ground, _ in found] == (["wrong_format"] if switched else [])
    # Of the shop it is no switch.
    assert list(_format(talk(wrote("black shoes", text)), None)) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ich suche schwarze Schuhe von Nike", []),
        ("Nike, size M", []),
        ("Pier One, Nike, M!", []),
        ("As an AI language model I cannot translate this. Error 500", ["error_text"]),
        ("Ich kann das leider nicht übersetzen.", ["error_text"]),
        ("Σφάλμα 503", ["error_text"]),
        ("Kunde: ich suche Schuhe", ["wrong_format"]),
        ("ΠΕΛΑΤΗΣ: παπούτσια", ["wrong_format"]),
        ("Comment puis-je vous aider ?", ["wrong_format"]),
        ("I am looking for black Nike shoes", ["translation"]),
    ],
)
def test_translations_are_flagged(text: str, expected: list[str]) -> None:
    english = talk(searched("I am looking for black Nike shoes", "x"), said("Nike, size M"))
    translated = talk(searched(text, "x"), said("Nike, size M"))
    found = flags_of_translation(translated, english)
    assert [ground for ground, _ in found] == expected
    assert all(reason.startswith("turn 1, customer") for _, reason in found)


def test_what_the_assistant_says_is_flagged_in_a_translation_too() -> None:
    ask = "What exactly do you have in mind?"
    english = talk(wrote("shoes", ask), searched("black", "x"))
    assert (
        flags_of_translation(talk(wrote("Schuhe", "Was genau?"), english.turns[1]), english) == []
    )
    assert flags_of_translation(talk(wrote("Schuhe", ask), english.turns[1]), english) == [
        ("translation", "turn 1, assistant: is left in English")
    ]


ANYBODY: dict[tuple[str, str], tuple[bool, str]] = {}


@pytest.mark.parametrize(
    ("found", "check", "people", "expected"),
    [
        ([], None, ANYBODY, (True, "rules", [])),
        ([("unfaithful", "x")], None, ANYBODY, (False, "rules", ["unfaithful"])),
        ([], Check(["error_text"], "y"), ANYBODY, (False, "verifier", ["error_text"])),
        (
            [("unfaithful", "x")],
            None,
            {("e00001", ""): (True, "fine")},
            (True, "person", ["unfaithful"]),
        ),
        ([], None, {("e00001", ""): (False, "odd")}, (False, "person", ["person"])),
        ([], None, {("e00001", "de"): (False, "odd")}, (True, "rules", [])),
        (
            [],
            None,
            {("e00001", ""): (False, "a"), ("e00001", "en"): (True, "b")},
            (True, "person", []),
        ),
    ],
)
def test_whose_decision_wins(found: Any, check: Any, people: Any, expected: Any) -> None:
    decision = decide(talk(*FINE), found, check, people)
    assert (decision.kept, decision.decided_by, decision.grounds) == expected
    assert decision.kept or decision.reasons


def test_what_holds_no_message_cannot_be_kept(vocabulary: Vocabulary) -> None:
    for outcome, ground in [
        ("customer_broke", "wrong_format"),
        ("no_progress", "customer_behaviour"),
        ("success", "customer_behaviour"),
    ]:
        empty = talk(outcome=outcome)
        decision = decide(
            empty, flags(empty, vocabulary, None), None, {("e00001", ""): (True, "fine")}
        )
        assert (decision.kept, decision.decided_by) == (False, "rules")
        assert ground in decision.grounds
        assert decision.reasons[-1] == "a person keeps it (fine), but it holds no message"


def test_a_verifier_without_an_answer_removes_nothing_and_is_told() -> None:
    from gavel.judge.prompts import Fault

    decision = decide(talk(*FINE), [], Check(faults=[Fault("timeout", "60 s")]), {})
    assert decision.kept
    assert decision.reasons == ["the verifier could not be got to answer: timeout"]


def test_decisions_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "decisions.csv"
    path.write_text(
        "id,language,decision,reason,goal\ne00001,,remove,odd,x\ne00002,de,keep,,x\ne00003,,,,x\n"
    )
    assert read_decisions(path) == {
        ("e00001", ""): (False, "odd"),
        ("e00002", "de"): (True, "no reason given"),
    }


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("id,language\n", "the column decision is missing"),
        ("id,decision\ne1,maybe\n", "line 2: decision 'maybe'"),
        ("id,language,decision\ne1,gr,keep\n", "language 'gr'"),
        ("id,decision\ne1,keep\ne1,remove\n", "line 3: 'e1' is both kept and removed"),
    ],
)
def test_malformed_decisions_are_told(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "decisions.csv"
    path.write_text(text)
    with pytest.raises(FashionError, match=told):
        read_decisions(path)
    with pytest.raises(FashionError, match="cannot be read"):
        read_decisions(tmp_path / "none.csv")
