"""Translating the kept conversations: messages only; queries, actions and goals stay English."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from gavel.fashion.conversation import Conversation
from gavel.fashion.parties import Voice, ask_about
from gavel.fashion.phrases import Phrasebook
from gavel.fashion.prompts import LANGUAGES, FashionPrompts, schema_of
from gavel.inference.request import Message, Question, Request
from gavel.inference.settle import Row
from gavel.judge.prompts import Fault
from gavel.judge.verdicts import read_object

_SCHEMA = schema_of(translation={"type": "string"})


@dataclass
class Translation:
    """One message in another language, or why there is none."""

    text: str = ""
    faults: list[Fault] = field(default_factory=list)


def subset(
    conversations: Sequence[Conversation], most: int | None, split: str, seed: int
) -> list[Conversation]:
    """At most `most` conversations of `split`, as many of each customer as the whole has, by chance of `seed`.

    The order is kept. None takes all conversations of every split.
    """
    if most is None:
        return list(conversations)
    groups: dict[str, list[Conversation]] = defaultdict(list)
    for conversation in conversations:
        if conversation.goal.split == split:
            groups[conversation.goal.customer].append(conversation)
    chance = random.Random(f"{seed}|subset")
    shuffled = [chance.sample(group, len(group)) for group in groups.values()]
    # Each group's members are spread evenly over 0 to 1, so that any cut takes its share of each.
    spread = sorted(
        ((rank + 0.5) / len(group), name, member.goal.id)
        for name, group in enumerate(shuffled)
        for rank, member in enumerate(group)
    )
    kept = {identity for _, _, identity in spread[:most]}
    return [c for c in conversations if c.goal.id in kept]


def translate(
    voice: Voice, prompts: FashionPrompts, conversations: Sequence[Conversation], language: str
) -> tuple[list[Conversation], dict[str, str]]:
    """The conversations in `language`, and why some of them, by id, could not be translated.

    A message that stands in several conversations is translated once.
    """
    question = voice.question(
        prompts.render("translate", "system", language=LANGUAGES[language]), _SCHEMA, "translation"
    )

    def asked(said: tuple[str, str]) -> tuple[Question, list[Message]]:
        speaker, text = said
        shown = prompts.render("translate", "message", speaker=speaker, text=text)
        return question, [Message("user", shown)]

    said = list(
        dict.fromkeys(
            (speaker, text)
            for c in conversations
            for turn in c.turns
            for speaker, text in (("customer", turn.customer), ("assistant", turn.text))
            if text
        )
    )
    settled = ask_about(voice, prompts, said, asked, _read, lambda reading: reading.faults)
    found: Mapping[tuple[str, str], Translation] = {
        each: result.reading for each, result in zip(said, settled, strict=True)
    }
    translated, lost = [], {}
    for c in conversations:
        faults = [
            fault
            for turn in c.turns
            for key in (("customer", turn.customer), ("assistant", turn.text))
            if key in found
            for fault in found[key].faults
        ]
        if faults:
            lost[c.goal.id] = f"{faults[0].code}: {faults[0].detail}"
            continue
        turns = [
            replace(
                turn,
                customer=found["customer", turn.customer].text,
                text=found["assistant", turn.text].text if turn.text else "",
            )
            for turn in c.turns
        ]
        translated.append(replace(c, language=language, turns=turns))
    return translated, lost


def scripted_translator(phrases: Phrasebook, language: str) -> Any:
    """The rule that translates the messages of the phrasebook; it has no words for any other."""

    def rule(request: Request) -> str:
        _, text = request.subject
        found = phrases.translate(text, language)
        return "" if found is None else orjson.dumps({"translation": found}).decode()

    return rule


def _read(answer: Row) -> Translation:
    found, _, fault = read_object(answer)
    if found is None:
        return Translation(faults=[] if fault is None else [fault])
    text = found.get("translation")
    if not isinstance(text, str) or not text.strip():
        shown = str(text)[:100]
        return Translation(faults=[Fault("wrong_type", f"translation: {shown!r} is no text")])
    return Translation(text.strip().encode("utf-8", "replace").decode())
