"""Verification: which simulated conversations are kept. A removal has a ground and a reason; none is edited."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from gavel.errors import FashionError
from gavel.fashion.actions import speaker
from gavel.fashion.conversation import Conversation
from gavel.fashion.parties import Voice, ask_about
from gavel.fashion.prompts import FashionPrompts, schema_of
from gavel.fashion.vocabulary import ENGLISH, Vocabulary
from gavel.inference.request import Message, Question
from gavel.inference.settle import Row
from gavel.judge.prompts import Fault
from gavel.judge.verdicts import read_object
from gavel.settings.fashion import FASHION_LANGUAGES
from gavel.text.words import count_words, holds, plain

GROUNDS = {
    "wrong_format": "a reply that could not be used, or that spoke for the other side",
    "error_text": "the text of an error, a refusal or an instruction in place of conversation",
    "customer_behaviour": "the customer did not behave as told",
    "unfaithful": "the customer asked for something else than the goal, or never for it",
    "translation": "a message could not be translated, or was left in English",
    "person": "a person removed it",
}
"""Every ground of removal. The first four are flagged by rules and, where one is configured, by a verifier."""

UNANSWERED = "the verifier could not be got to answer"
"""How the reason begins where a verifier's check is missing."""

FLAGGED = ("wrong_format", "error_text", "customer_behaviour", "unfaithful")

SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "language", "split")),
        ("kept", pa.bool_()),
        ("decided_by", pa.string()),
        ("grounds", pa.list_(pa.string())),
        ("reasons", pa.list_(pa.string())),
    ]
)
"""One row a conversation: kept or removed, by whom, and every ground and reason found, also of those kept."""

_CANNOT = r"(?:\bi(?:'m| am)?(?: \w+)? |\A\W*(?:sorry\W+)?)(?:can't|cannot|can not|won't|(?:not able|unable) to) "
_ERROR = re.compile(
    "|".join(
        (
            # Errors of a server, a client or a program.
            r"\b(?:error|fehler|erreur|σφάλμα)(?: code)?:? ?[45]\d\d\b|\bhttp [45]\d\d\b",
            r"\b[45]\d\d (?:service unavailable|bad gateway|gateway time-?out|internal server error|bad request"
            r"|too many requests|not found|forbidden|unauthorized)\b",
            r"\binternal server error|\bservice unavailable\b|\bbad gateway\b|\brate limit|\bmax(?:imum)? tokens"
            r"|\b(?:request|connection|gateway) (?:has )?timed out\b|\bconnection (?:refused|reset)\b",
            r"\bzeitüberschreitung\b|\bdélai d'attente dépassé|\bτο αίτημα έληξε\b",
            r"traceback \(most recent|\bcontext length|\bnull pointer|\bundefined is not|\[object object\]",
            r"\A\W*(?:null|undefined|nan)\W*\Z",
            # What frames a model's text.
            r"<\|[a-z_]+\|>|\[/?inst\]|\{\{.*\}\}|</?think(?:ing)?>|^\W*### ?\w+ ?:|\bopenai\b",
            # A model that speaks of itself.
            r"\bas an ai\b(?!,? you)",
            r"\b(?:ai|large) language model\b",
            r"\b(?:as|i am|i'm) (?:just |only |merely )?an? (?:ai|language) model\b",
            r"\b(?:i am|i'm) (?:just |only |merely )?an ai(?=[,.;!:]| (?:and|so|but|assistant|chatbot)\b|\W*\Z)",
            r"\bals (?:ki|ki-modell|künstliche intelligenz|(?:ki-)?sprachmodell)\b",
            r"\bbin (?:nur )?ein (?:ki-)?sprachmodell\b",
            r"\ben tant qu'(?:ia|intelligence artificielle)\b|\bmodèle de langage\b",
            r"\bως τεχνητή νοημοσύνη\b|\bγλωσσικό μοντέλο\b",
            # A refusal to play the part or to translate.
            _CANNOT + r"(?:write|act|play|role-?play|speak|answer|reply|respond|pretend)"
            r"\b.{0,20}\b(?:customer|user|role|character)\b",
            _CANNOT + r"translate (?:this|that|it|the (?:text|message|following))\b",
            r"\bkann (?:\w+ ){1,4}nicht übersetzen\b|\bne peux pas traduire\b|\bδεν μπορώ να (?:το )?μεταφράσω\b",
            # Help refused and nothing else said; what a shop cannot do is named, and something follows.
            _CANNOT + r"(?:help|assist)(?: you)?(?: with (?:that|this)(?: request)?)?\W*\Z",
            _CANNOT + r"(?:comply|fulfill?|continue) (?:with )?(?:that|this|your) request\b",
            r"\b(?:dabei|damit|bei dieser anfrage) kann ich (?:\w+ ){0,3}nicht (?:weiter)?helfen\W*\Z",
            r"\bne peux pas (?:vous |t')?aider(?: (?:avec|pour) (?:cela|ça|cette demande))?\W*\Z",
            r"\bδεν μπορώ να (?:σας |σε )?βοηθήσω(?: με αυτό(?: το αίτημα)?)?\W*\Z",
        )
    ),
    re.IGNORECASE | re.MULTILINE,
)
_SHOP = re.compile(
    r"\bhow (?:can|may) i (?:help|assist) you\b|\bwie kann ich (?:ihnen|dir) (?:\w+ ){0,3}(?:weiter)?helfen\b"
    r"|\bcomment puis-je vous aider\b|\bπώς μπορώ να (?:σας|σε) βοηθήσω\b"
    r"|\bhere (?:are|is) (?:some|a few|several|our|the) (?:\w+ ){0,3}"
    r"(?:options|items|results|suggestions|recommendations|products|pieces)\b"
    r"|\bhier sind (?:einige|ein paar) (?:\w+ ){0,3}(?:optionen|artikel|vorschläge|ergebnisse)\b"
    r"|\bvoici (?:quelques|des|nos) (?:\w+ ){0,3}(?:options|articles|suggestions|résultats)\b"
    r"|\b(?:ορίστε|εδώ είναι) μερικ(?:ές|ά) (?:\w+ ){0,3}(?:επιλογές|προτάσεις|προϊόντα)",
    re.IGNORECASE,
)
"""What only the shop says: a customer who says it has switched roles."""
_ORDINARY = {"small", "medium", "large", "summer", "comfortable", "loose"}
"""Values that are also said of other things, so that one of them contradicts nothing."""
_NEGATED = re.compile(
    r"\b(?:not|no|without|except|instead of|rather than|other than|anything but|never)(?: \w+){1,2}"
)
"""What a customer does not want, in the plain form."""
_CASUAL_WORDS = 20.0
"""Words a message that a casual customer writes at most, on average."""


_SAME = 4
"""Words of a message that may be the same in two languages: names, sizes, thanks."""


@dataclass
class Decision:
    """What becomes of one conversation."""

    kept: bool = True
    decided_by: str = "rules"
    grounds: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def flag(self, ground: str, reason: str, by: str) -> None:
        """Remove for `ground`, unless it is removed already, and add the reason."""
        if self.kept:
            self.kept, self.decided_by = False, by
        self.grounds.append(ground)
        self.reasons.append(reason)

    def row(self, conversation: Conversation) -> dict[str, Any]:
        """The decision as a row of SCHEMA."""
        goal = conversation.goal
        own = {"id": goal.id, "language": conversation.language, "split": goal.split}
        return {**own, **vars(self)}


def flags(
    conversation: Conversation, vocabulary: Vocabulary, fault_detail: str | None
) -> list[tuple[str, str]]:
    """The grounds that rules find, each with a reason; of an English conversation.

    `fault_detail` tells of the reply that could not be used, where one broke the conversation.
    """
    return [
        *_format(conversation, fault_detail),
        *_errors(conversation),
        *_behaviour(conversation),
        *_faith(conversation, vocabulary),
    ]


def flags_of_translation(translated: Conversation, english: Conversation) -> list[tuple[str, str]]:
    """The grounds that rules find in a translation, each with a reason.

    What may be said in any language: the text of an error, a refusal, the other side's part, a speaker's name; and
    a message of more than _SAME words left as it is in English.
    """
    found = [*_switches(translated), *_errors(translated)]
    for number, (turn, before) in enumerate(zip(translated.turns, english.turns, strict=True), 1):
        for who, text, own in (
            ("customer", turn.customer, before.customer),
            ("assistant", turn.text, before.text),
        ):
            if named := next(filter(None, map(speaker, text.splitlines())), None):
                found.append(
                    ("wrong_format", f"turn {number}, {who}: names the {named[0]} as the speaker")
                )
            if plain(text) == plain(own) and len(re.findall(r"[\w'&]+", plain(text))) > _SAME:
                found.append(("translation", f"turn {number}, {who}: is left in English"))
    return found


def _format(conversation: Conversation, fault_detail: str | None) -> Iterable[tuple[str, str]]:
    if conversation.outcome in ("broken", "customer_broke"):
        yield "wrong_format", fault_detail or "a reply could not be used"
    yield from _switches(conversation)


def _switches(conversation: Conversation) -> Iterable[tuple[str, str]]:
    for number, turn in enumerate(conversation.turns, 1):
        if match := _SHOP.search(plain(turn.customer)):
            yield "wrong_format", f"turn {number}, customer, speaks for the shop: {match.group()!r}"


def _errors(conversation: Conversation) -> Iterable[tuple[str, str]]:
    for number, turn in enumerate(conversation.turns, 1):
        for who, text in (("customer", turn.customer), ("assistant", turn.text)):
            # Line by line, with one kind of apostrophe.
            if match := _ERROR.search("\n".join(map(plain, text.splitlines()))):
                yield "error_text", f"turn {number}, {who}: {match.group()!r}"


def _behaviour(conversation: Conversation) -> Iterable[tuple[str, str]]:
    goal, turns = conversation.goal, conversation.turns
    if not turns and conversation.outcome not in ("broken", "customer_broke"):
        yield "customer_behaviour", "ended the conversation without a word"
    if conversation.outcome == "turn_limit":
        yield "customer_behaviour", f"had not ended the conversation after {len(turns)} turns"
    if conversation.outcome == "success" and not conversation.searches():
        yield "customer_behaviour", "ended in success without having been shown anything"
    lengths = [count_words(turn.customer) for turn in turns]
    if goal.personality == "casual" and lengths and sum(lengths) / len(lengths) > _CASUAL_WORDS:
        mean = sum(lengths) / len(lengths)
        yield "customer_behaviour", f"casual, but wrote {mean:.1f} words a message"
    if goal.personality == "indecisive" and len(goal.properties) > 2 and turns:
        named = [v for v in goal.properties.values() if holds(turns[0].customer, [v])]
        if len(named) == len(goal.properties):
            yield "customer_behaviour", "indecisive, but named every property in the first message"


def _faith(conversation: Conversation, vocabulary: Vocabulary) -> Iterable[tuple[str, str]]:
    goal = conversation.goal
    if not conversation.turns:
        return
    said = " . ".join(turn.customer for turn in conversation.turns)
    if goal.kind == "item":
        found = vocabulary.mentions(said, ENGLISH)
        wanted = _NEGATED.sub(" ", plain(said))
        for value in dict.fromkeys(vocabulary.mentions(wanted, ENGLISH)):
            own = goal.properties.get(vocabulary.attribute_of[value])
            # Who asks for the goal's own value, in any spelling, may speak of others beside it.
            if value in _ORDINARY or own is None or holds(wanted, vocabulary.equivalents(own)):
                continue
            yield "unfaithful", f"asked for {value!r}, the goal says {own!r}"
        if not any(value in found for value in goal.properties.values()):
            yield "unfaithful", f"named nothing of {goal.text!r}"
    elif not _of_theme(said, goal.text):
        yield "unfaithful", f"never spoke of {goal.text!r}"


def _of_theme(said: str, theme: str) -> bool:
    """Whether half of the words of a theme's name that carry it were said."""
    words = [word for word in theme.split() if len(word) > 3]
    return sum(holds(said, [word, f"{word}*"]) for word in words) * 2 >= len(words)


_CHECK_SCHEMA = schema_of(
    **{ground: {"type": "boolean"} for ground in FLAGGED}, reason={"type": "string"}
)


@dataclass
class Check:
    """What a verifier said: the grounds it sees, and why."""

    grounds: list[str] = field(default_factory=list)
    reason: str = ""
    faults: list[Fault] = field(default_factory=list)


def checked(
    voice: Voice, prompts: FashionPrompts, conversations: Sequence[Conversation]
) -> list[Check]:
    """The verifier's view of each conversation; one that it cannot be got to give has faults."""
    question = voice.question(prompts.render("verify", "system"), _CHECK_SCHEMA, "check")

    def asked(conversation: Conversation) -> tuple[Question, list[Message]]:
        text = prompts.render(
            "verify",
            "conversation",
            goal=conversation.goal,
            turns=conversation.turns,
            outcome=conversation.outcome,
        )
        return question, [Message("user", text)]

    settled = ask_about(voice, prompts, conversations, asked, _read_check, lambda c: c.faults)
    return [each.reading for each in settled]


def _read_check(answer: Row) -> Check:
    found, _, fault = read_object(answer)
    if found is None:
        return Check(faults=[] if fault is None else [fault])
    check = Check(reason=str(found.get("reason") or "")[:500])
    for ground in FLAGGED:
        value = found.get(ground)
        if not isinstance(value, bool):
            check.faults.append(
                Fault("wrong_type", f"{ground}: {value!r} is neither true nor false")
            )
        elif value:
            check.grounds.append(ground)
    if check.grounds and not check.reason.strip():
        check.faults.append(Fault("missing_field", "reason: must say why a ground is true"))
    return check


def read_decisions(path: Path) -> dict[tuple[str, str], tuple[bool, str]]:
    """People's decisions from a CSV file with the columns id, language, decision, reason.

    By id and language ("" for all): whether it is kept, and why.

    Raises:
        FashionError: the file is missing, lacks a column, or a row says something else than keep or remove.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise FashionError(f"{path}: cannot be read ({error})") from error
    reader = csv.DictReader(io.StringIO(text))
    if missing := {"id", "decision"} - set(reader.fieldnames or ()):
        raise FashionError(
            f"{path}: the column {', '.join(sorted(missing))} is missing; accepted: id, language, decision, reason"
        )
    found: dict[tuple[str, str], tuple[bool, str]] = {}
    for row in reader:
        identity, decision = (row["id"] or "").strip(), (row["decision"] or "").strip().lower()
        language = (row.get("language") or "").strip()
        if not decision:
            continue  # a sample that nobody has looked at yet
        if decision not in ("keep", "remove") or language not in ("", *FASHION_LANGUAGES):
            raise FashionError(
                f"{path}, line {reader.line_num}: decision {decision!r} of {identity!r}, language {language!r}; "
                f"accepted: keep or remove, and a language of {', '.join(FASHION_LANGUAGES)} or none"
            )
        reason = (row.get("reason") or "").strip() or "no reason given"
        if found.get((identity, language), (decision == "keep", ""))[0] != (decision == "keep"):
            raise FashionError(
                f"{path}, line {reader.line_num}: {identity!r} is both kept and removed; leave one of the rows"
            )
        found[identity, language] = (decision == "keep", reason)
    return found


def decide(
    conversation: Conversation,
    found: Iterable[tuple[str, str]],
    check: Check | None,
    people: Mapping[tuple[str, str], tuple[bool, str]],
) -> Decision:
    """What becomes of a conversation: a person's decision wins, then any flag removes.

    `found` is what rules flag. A decision for its language wins over one for all languages. What holds no message
    cannot be kept.
    """
    decision = Decision()
    for ground, reason in found:
        decision.flag(ground, reason, "rules")
    for ground in check.grounds if check is not None else ():
        decision.flag(ground, (check.reason if check else "") or "it gives no reason", "verifier")
    if check is not None and check.faults:
        decision.reasons.append(f"{UNANSWERED}: {check.faults[0].code}")
    identity = conversation.goal.id
    own = people.get((identity, conversation.language)) or people.get((identity, ""))
    if own is not None and own[0] and not conversation.turns:
        decision.reasons.append(f"a person keeps it ({own[1]}), but it holds no message")
    elif own is not None:
        decision.kept, decision.decided_by = own[0], "person"
        decision.reasons.append(own[1])
        if not decision.kept:
            decision.grounds.append("person")
    return decision
