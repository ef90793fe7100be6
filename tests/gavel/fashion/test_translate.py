"""Translation: messages only, once each; what cannot be translated is lost with a reason; subsets are fair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import orjson

from gavel.fashion.conversation import Conversation
from gavel.fashion.simulate import Ground
from gavel.fashion.translate import scripted_translator, subset, translate
from gavel.inference.ledger import Ledger
from gavel.inference.request import Request

from .conftest import goal, said, searched, talk, wrote


def translated(
    ground: Ground, folder: Path, conversations: list[Conversation], asked: Counter[str]
) -> tuple[list[Conversation], dict[str, str]]:
    rule = scripted_translator(ground.scripts.phrases, "de")

    def counted(request: Request) -> str:
        asked[request.subject[1]] += 1
        return str(rule(request))

    with Ledger.open(folder, "run", "w") as ledger:
        voice = ground.voice("scripted", ledger, counted, "r")
        return translate(voice, ground.prompts, conversations, "de")


def test_messages_are_translated_and_the_rest_stays(
    ground: Callable[..., Ground], tmp_path: Path
) -> None:
    ask = "With pleasure. What exactly do you have in mind?"
    one = talk(
        wrote("need shoes", ask),
        searched("also black", "black shoes"),
        said("ok thanks"),
        all_info=True,
    )
    asked: Counter[str] = Counter()
    (found,), lost = translated(ground(), tmp_path, [one], asked)
    assert lost == {}
    assert found.language == "de"
    assert [(t.customer, t.text, t.queries, t.action) for t in found.turns] == [
        ("brauche Schuhe", "Sehr gern. Woran genau denken Sie?", [], "message"),
        ("und zwar schwarz", "", ["black shoes"], "search"),
        ("ok danke", "", [], None),
    ]
    assert (found.goal, found.all_info, found.outcome) == (one.goal, True, "success")
    assert one.turns[0].customer == "need shoes"


def test_a_message_is_translated_once_and_a_lost_one_loses_its_conversations(
    ground: Callable[..., Ground], tmp_path: Path
) -> None:
    first = talk(searched("need shoes", "x"), said("ok thanks"))
    second = talk(searched("need shoes", "x"), said("so long"), goal=goal(2))
    asked: Counter[str] = Counter()
    found, lost = translated(ground(), tmp_path, [first, second], asked)
    assert [c.goal.id for c in found] == ["e00001"]
    assert set(lost) == {"e00002"}
    assert lost["e00002"].startswith("empty_response")
    # Only the one that could not be used was asked again.
    assert asked == {"need shoes": 1, "ok thanks": 1, "so long": 3}


def test_a_translation_is_text_and_not_blank() -> None:
    from gavel.fashion.translate import _read

    for text, fault in [
        ({"translation": "ja"}, []),
        ({"translation": " "}, ["wrong_type"]),
        ({}, ["wrong_type"]),
    ]:
        row = {"text": orjson.dumps(text).decode(), "finish_reason": "stop"}
        found = _read(row | dict.fromkeys(("refusal", "failure", "detail")))
        assert [f.code for f in found.faults] == fault


def test_a_subset_has_its_share_of_every_customer() -> None:
    whole = [talk(goal=goal(n, customer=f"c{n % 4}")) for n in range(40)]
    whole += [talk(goal=goal(n, split="development", customer="c0")) for n in range(40, 50)]
    chosen = subset(whole, 8, "evaluation", 7)
    assert Counter((c.goal.split, c.goal.customer) for c in chosen) == {
        ("evaluation", f"c{n}"): 2 for n in range(4)
    }
    assert chosen == subset(whole, 8, "evaluation", 7)
    assert [c.goal.id for c in chosen] == sorted(c.goal.id for c in chosen)
    assert subset(whole, None, "evaluation", 7) == whole
    assert len(subset(whole, 1000, "evaluation", 7)) == 40
    assert len(subset(whole, 1000, "development", 7)) == 10
    assert subset(whole, 8, "evaluation", 8) != chosen
