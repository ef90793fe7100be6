"""The MultiWOZ evaluation of one system: Inform, Success, BLEU, Combined, joint goal accuracy, slot F1.

Every dialogue is evaluated under two readings of what the rules leave open: `strict`, as the suite's
options say, and `reference`, as the published evaluator does it, so that figures can be compared with
published ones and nobody is misled by them. `gavel.settings.dialogue.DialogueOptions` lists the differences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gavel.dialogue import bleu, domains, normalise
from gavel.dialogue.corpus import Corpus, Goal, State
from gavel.dialogue.database import one_letter_slots
from gavel.dialogue.inform import Failure, Outcome, Seen, judge
from gavel.dialogue.lexical import Heard, Lexicon
from gavel.dialogue.predictions import Predictions, Turn
from gavel.dialogue.tracking import track
from gavel.errors import PredictionError
from gavel.settings.dialogue import DialogueOptions

VERSION = "2"
"""Raised whenever the same predictions give other figures."""

STRICT, REFERENCE = "strict", "reference"

AS_PUBLISHED = {
    "missing_dialogues": "skip",
    "missing_states": "gold",
    "turn_counts": "shortest",
    "one_letter_values": "fuzzy",
}
"""The options under which the published evaluator's figures come out."""

_NAMED = 5


@dataclass(frozen=True)
class Evaluation:
    """Per-dialogue rows of both readings, what to tell a person, and the signature of each reading."""

    system: str
    rows: list[dict[str, Any]]
    notes: list[str]
    signatures: Mapping[str, str]


@dataclass
class _Prepared:
    """A system's turns as the metrics read them; `own_states` are normalised, None where absent."""

    responses: dict[str, list[str]]
    own_states: dict[str, list[State | None]]
    heard: dict[str, list[Heard]] = field(default_factory=dict)
    lexicalised: bool = False


def evaluate(predictions: Predictions, corpus: Corpus, options: DialogueOptions) -> Evaluation:
    """Evaluate one system's predictions. Nothing of the input is changed.

    Raises:
        PredictionError: a dialogue is not in the corpus, or has another number of turns.
    """
    _check(predictions, corpus, options)
    prepared = _prepare(predictions, corpus, options)
    counts = _bleu(prepared.responses, corpus.references)
    texts = (
        _bleu(
            {
                name: [turn.response for turn in turns]
                for name, turns in predictions.dialogues.items()
            },
            {name: [said for _, said in turns] for name, turns in corpus.texts.items()},
        )
        if prepared.lexicalised and corpus.texts
        else None
    )
    readings = {STRICT: options, REFERENCE: options.model_copy(update=AS_PUBLISHED)}
    strict_gold = _uses_gold(prepared, options)
    letters = _letters(prepared.own_states)
    by_letter = _letters(corpus.states) if strict_gold else letters
    seen: dict[str, list[Seen]] = {}
    rows: list[dict[str, Any]] = []
    for reading, chosen in readings.items():
        gold = _uses_gold(prepared, chosen)
        strictly = {row["dialogue_id"]: row for row in rows}
        if reading == STRICT or gold != strict_gold:
            seen = _seen(predictions, corpus, chosen, prepared, gold)
        for name, goal in corpus.goals.items():
            if name not in seen:
                if chosen.missing_dialogues == "fail":
                    rows.append(_missing_row(name, reading, corpus, prepared))
                continue
            row = strictly.get(name) if gold == strict_gold else None
            if row is not None and not _hangs_on_a_letter(row, goal, name in by_letter):
                rows.append({**row, "reading": reading})
                continue
            outcome = judge(
                goal, corpus.booked[name], seen[name], corpus.database, chosen.one_letter_values
            )
            rows.append(
                {
                    **_row(name, reading, outcome, counts[name]),
                    "bleu_text": None if texts is None else texts[name].tolist(),
                    "tracking": None if gold else _tracked(name, seen[name], corpus, chosen),
                    **_consistency(prepared.heard.get(name)),
                }
            )
    return Evaluation(
        predictions.system,
        [{"system": predictions.system, "track": "multiwoz", **row} for row in rows],
        _notes(predictions, corpus, prepared, letters),
        {
            reading: _signature(predictions, corpus, chosen, prepared)
            for reading, chosen in readings.items()
        },
    )


def as_seen(
    predictions: Predictions, corpus: Corpus, options: DialogueOptions
) -> tuple[dict[str, list[Seen]], dict[str, list[list[str]]]]:
    """Every turn as the strict reading sees it, to be shown beside the verdict.

    Of lexicalised responses besides, the entities that each turn named though neither the results given
    nor the own state has them.
    """
    prepared = _prepare(predictions, corpus, options)
    seen = _seen(predictions, corpus, options, prepared, _uses_gold(prepared, options))
    unfounded = {
        name: [
            [e for e, right in zip(each.entities, each.consistent, strict=True) if not right]
            for each in heard
        ]
        for name, heard in prepared.heard.items()
    }
    return seen, unfounded


def _check(predictions: Predictions, corpus: Corpus, options: DialogueOptions) -> None:
    where = f"predictions of {predictions.system}"
    if unknown := [name for name in predictions.dialogues if name not in corpus.goals]:
        raise PredictionError(
            f"{where}: {len(unknown):,} dialogues are not in the corpus: {_some(unknown)}; "
            f"its ids look like {next(iter(corpus.goals))!r}"
        )
    wrong = [
        f"{name!r} has {len(turns)} turns, not {corpus.turns(name)}"
        for name, turns in predictions.dialogues.items()
        if len(turns) != corpus.turns(name)
    ]
    if wrong and options.turn_counts == "error":
        raise PredictionError(
            f"{where}: {len(wrong):,} dialogues have another number of turns than the corpus: "
            f"{_some(wrong)}; `turn_counts: shortest` cuts them, as the reference does in silence"
        )


def _prepare(predictions: Predictions, corpus: Corpus, options: DialogueOptions) -> _Prepared:
    lexicalised = options.responses == "lexicalised" or (
        options.responses == "auto" and not _delexicalised(predictions)
    )
    prepared = _Prepared({}, {}, lexicalised=lexicalised)
    lexicon = Lexicon(corpus.database) if lexicalised else None
    for name, given in predictions.dialogues.items():
        turns = given[: corpus.turns(name)]
        prepared.own_states[name] = [
            None
            if turn.state is None
            else {domain: normalise.state(slots) for domain, slots in turn.state.items()}
            for turn in turns
        ]
        said = [turn.response for turn in turns]
        if lexicon is not None:
            heard = [
                lexicon.hear(turn.response, turn.results, state)
                for turn, state in zip(turns, prepared.own_states[name], strict=True)
            ]
            prepared.heard[name] = heard
            said = [each.delexicalised for each in heard]
        prepared.responses[name] = [normalise.response(text) for text in said]
    return prepared


def _delexicalised(predictions: Predictions) -> bool:
    """Whether any response holds a slot; a system that names real entities writes none.

    Nor does one that says nothing at all, which is neither.
    """
    said = any(turn.response.strip() for turns in predictions.dialogues.values() for turn in turns)
    return not said or any(
        slot in normalise.SLOT_TOKENS
        for turns in predictions.dialogues.values()
        for turn in turns
        for slot in normalise.SLOT.findall(turn.response.lower())
    )


def _seen(
    predictions: Predictions,
    corpus: Corpus,
    options: DialogueOptions,
    prepared: _Prepared,
    gold: bool,
) -> dict[str, list[Seen]]:
    """Every turn with its state (the gold one, if `gold`) and active domains under `options`."""
    given = options.active_domains == "given" or (
        options.active_domains == "auto"
        and all(
            turn.active_domains is not None
            for turns in predictions.dialogues.values()
            for turn in turns
        )
    )
    seen = {}
    for name, responses in prepared.responses.items():
        states = (
            list(corpus.states[name])
            if gold
            else [state if state is not None else {} for state in prepared.own_states[name]]
        )
        turns = predictions.dialogues[name]
        active: Sequence[Sequence[str]]
        if given:
            active = [turn.active_domains or () for turn in turns]
        elif options.active_domains == "slots":
            active = [domains.from_slots(text) for text in _with_slots(turns, prepared, name)]
        else:
            active = domains.from_states(states)
        seen[name] = [Seen(*turn) for turn in zip(responses, states, active, strict=False)]
    return seen


def _with_slots(turns: Sequence[Turn], prepared: _Prepared, name: str) -> list[str]:
    if prepared.lexicalised:
        return [each.delexicalised for each in prepared.heard[name]]
    return [turn.response for turn in turns]


def _uses_gold(prepared: _Prepared, options: DialogueOptions) -> bool:
    """Whether gold states stand for the file's: always where it has none, a system given the state."""
    absent = [state is None for states in prepared.own_states.values() for state in states]
    return all(absent) or (any(absent) and options.missing_states == "gold")


def _bleu(
    said: Mapping[str, Sequence[str]], references: Mapping[str, Sequence[str]]
) -> dict[str, NDArray[np.int64]]:
    """BLEU's counts of each dialogue."""
    pairs = [
        pair for name, turns in said.items() for pair in zip(turns, references[name], strict=False)
    ]
    counts = bleu.statistics([own for own, _ in pairs], [gold for _, gold in pairs])
    lengths = [min(len(turns), len(references[name])) for name, turns in said.items()]
    sums = np.zeros((len(counts) + 1, bleu.STATISTICS), dtype=np.int64)
    np.cumsum(counts, axis=0, out=sums[1:])
    ends = np.cumsum(lengths, dtype=np.int64)
    return dict(zip(said, sums[ends] - sums[ends - lengths], strict=True))


def _row(name: str, reading: str, outcome: Outcome, counts: NDArray[np.int64]) -> dict[str, Any]:
    return {
        "reading": reading,
        "dialogue_id": name,
        "missing": False,
        "inform": outcome.inform,
        "success": outcome.success,
        "domains": [{"domain": d, "inform": held} for d, held in outcome.domains.items()],
        "bleu": counts.tolist(),
        "failures": [dict(vars(failure)) for failure in outcome.failures],
    }


def _hangs_on_a_letter(row: Mapping[str, Any], goal: Goal, in_a_state: bool) -> bool:
    """Whether a value of one letter decides anything, so that the readings may differ."""
    return bool(
        in_a_state
        or (row["tracking"] or {}).get("one_letter")
        or any(one_letter_slots(domain, wanted.informable) for domain, wanted in goal.items())
    )


def _letters(
    states: Mapping[str, Sequence[State | None]],
) -> dict[str, list[tuple[int, str, str, str]]]:
    """The dialogues whose states name something by one letter: turn, domain, slot, value."""
    found: dict[str, list[tuple[int, str, str, str]]] = {}
    for name, turns in states.items():
        for number, state in enumerate(turns, 1):
            for domain, slots in (state or {}).items():
                for slot in one_letter_slots(domain, slots):
                    found.setdefault(name, []).append((number, domain, slot, str(slots[slot])))
    return found


def _missing_row(name: str, reading: str, corpus: Corpus, prepared: _Prepared) -> dict[str, Any]:
    """A dialogue that the file lacks: one of empty responses, its every slot missed and its every turn wrong.

    An empty state would be right in the turns before anything was asked, which nobody tracked here.
    """
    references = list(corpus.references[name])
    tracking = track([{}] * len(references), corpus.states[name], one_letter="equal")
    outcome = Outcome(
        False, False, dict.fromkeys(corpus.goals[name], False), [Failure(None, "missing_dialogue")]
    )
    spoken = [said for _, said in corpus.texts.get(name, ())] if prepared.lexicalised else []
    no_state = all(state is None for states in prepared.own_states.values() for state in states)
    return {
        **_row(name, reading, outcome, _silence(references)),
        **_consistency(None),
        "missing": True,
        "bleu_text": _silence(spoken).tolist() if spoken else None,
        "tracking": None if no_state else {**vars(tracking), "joint": 0},
    }


def _silence(references: Sequence[str]) -> NDArray[np.int64]:
    """BLEU's counts of saying nothing instead of `references`."""
    counts: NDArray[np.int64] = bleu.statistics([""] * len(references), references).sum(axis=0)
    return counts


def _tracked(
    name: str, seen: Sequence[Seen], corpus: Corpus, options: DialogueOptions
) -> dict[str, int]:
    gold = corpus.states[name][: len(seen)]
    counts = track([turn.state for turn in seen], gold, options.one_letter_values)
    return dict(vars(counts))


def _consistency(heard: Sequence[Heard] | None) -> dict[str, Any]:
    """Entity consistency: how many entities were mentioned, and how many of them rightly."""
    if heard is None:
        return {"entities": None, "consistent_entities": None}
    return {
        "entities": sum(len(each.entities) for each in heard),
        "consistent_entities": sum(sum(each.consistent) for each in heard),
    }


def _notes(
    predictions: Predictions,
    corpus: Corpus,
    prepared: _Prepared,
    by_letter: Mapping[str, Sequence[tuple[int, str, str, str]]],
) -> list[str]:
    """What a person should know beside the figures, a sentence each."""
    notes = []
    if missing := [name for name in corpus.goals if name not in predictions.dialogues]:
        notes.append(
            f"{len(missing):,} of {len(corpus.goals):,} dialogues are missing: {_some(missing)}; "
            "they count as failed under the strict reading and are left out by the reference"
        )
    stateless = [
        f"{name!r} turn {number}"
        for name, states in prepared.own_states.items()
        for number, state in enumerate(states, 1)
        if state is None
    ]
    if stateless and len(stateless) == sum(map(len, prepared.own_states.values())):
        notes.append("no turn has a state: evaluated with the gold states (policy optimisation)")
    elif stateless:
        notes.append(
            f"{len(stateless):,} turns have no state: {_some(stateless)}; the strict reading takes "
            "theirs as empty, the reference replaces every state of the file by the gold one"
        )
    unknown = Counter(
        slot
        for turns in predictions.dialogues.values()
        for turn in turns
        for slot in normalise.unknown_slots(turn.response)
    )
    if unknown and not prepared.lexicalised:
        notes.append(
            "slot names that stand for nothing, and are left out of the responses: "
            + _some([f"{slot!r} ({count:,})" for slot, count in unknown.most_common()])
        )
    letters = [
        f"{name!r} turn {number} {domain}-{slot} {given!r}"
        for name, turns in by_letter.items()
        for number, domain, slot, given in turns
    ]
    if letters:
        notes.append(
            f"{len(letters):,} names of one letter, which the reference matches with every name that "
            f"holds it: {_some(letters)}"
        )
    if prepared.lexicalised:
        notes.append("responses are lexicalised: entities and numbers were found by the databases")
    return notes


def _signature(
    predictions: Predictions, corpus: Corpus, options: DialogueOptions, prepared: _Prepared
) -> str:
    """Everything that determines the figures, in sacrebleu's manner."""
    parts = {
        "corpus": corpus.fingerprint,
        "predictions": predictions.fingerprint,
        "missing": options.missing_dialogues,
        "states": "gold" if _uses_gold(prepared, options) else options.missing_states,
        "turns": options.turn_counts,
        "oneletter": options.one_letter_values,
        "domains": options.active_domains,
        "responses": "lexicalised" if prepared.lexicalised else "delexicalised",
        **_versions(),
        "bleu": bleu.signature(),
    }
    return f"multiwoz|v:{VERSION}|" + "|".join(f"{key}:{given}" for key, given in parts.items())


@cache
def _versions() -> dict[str, str]:
    return {library: version(library) for library in ("rapidfuzz", "sacremoses")}


def _some(items: Sequence[str]) -> str:
    shown = ", ".join(items[:_NAMED])
    return shown + (f" and {len(items) - _NAMED:,} more" if len(items) > _NAMED else "")
