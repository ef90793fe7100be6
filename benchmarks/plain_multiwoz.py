"""The MultiWOZ evaluation written down plainly: one dialogue after another, every query a scan.

The same definition as `gavel.dialogue` (normalisation and partial ratio are shared, being the
definition), with nothing kept or shared between turns. It is here to be compared with: for the time
it takes, and for figures that must come out the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from rapidfuzz.distance import Indel, Levenshtein
from sacrebleu import corpus_bleu
from sacremoses import MosesDetokenizer, MosesTokenizer

from gavel.dialogue import normalise
from gavel.dialogue.corpus import Corpus
from gavel.dialogue.domains import from_slots, from_states
from gavel.dialogue.predictions import Predictions

FUZZY = {"name", "food", "departure", "destination"}


def partial_ratio(one: str, other: str) -> int:
    if one == other:
        return 100
    shorter, longer = (one, other) if len(one) <= len(other) else (other, one)
    if not shorter:
        return 0
    ratios = [0.0]
    for block in Levenshtein.editops(shorter, longer).as_matching_blocks():
        start = max(block.b - block.a, 0)
        ratio = Indel.normalized_similarity(shorter, longer[start : start + len(shorter)])
        if ratio > 0.995:
            return 100
        ratios.append(ratio)
    return round(100 * max(ratios))


def query(rows: list[dict[str, str]], domain: str, constraints: Mapping[str, Any]) -> set[str]:
    if not rows:
        return set()
    asked = {}
    for slot, given in constraints.items():
        if slot in rows[0] and given is not None and given not in normalise.DONTCARE:
            asked[slot] = normalise.value.__wrapped__(slot, given)
    found = set()
    for row in rows:
        for slot, given in asked.items():
            cell = row.get(slot)
            if cell == "?":
                continue
            if slot == "arrive":
                fits = minutes(cell) <= minutes(given)
            elif slot == "leave":
                fits = minutes(cell) >= minutes(given)
            elif slot in FUZZY:
                fits = partial_ratio(cell, given) >= 90
            else:
                fits = cell == given
            if not fits:
                break
        else:
            found.add(row["trainid" if domain == "train" else "id"])
    return found


def minutes(time: str) -> int:
    return normalise.minutes.__wrapped__(time)


def evaluate(predictions: Predictions, corpus: Corpus, active: str) -> dict[str, float]:
    """Inform, Success, BLEU, joint goal accuracy and slot F1 by the reference's reading."""
    tokenizer, detokenizer = MosesTokenizer(lang="en"), MosesDetokenizer(lang="en")
    responses, states, gold = [], [], []
    said, references = [], []
    totals: Counter[str] = Counter()
    for name, turns in predictions.dialogues.items():
        responses, states = [], []
        for turn in turns:
            text = normalise.SLOT.sub(
                lambda slot: normalise.SLOT_TOKENS.get(slot[1], ""), turn.response.lower()
            )
            text = text.replace("-s", "").replace("-ly", "")
            responses.append(detokenizer.detokenize(tokenizer.tokenize(text)))
            states.append(
                {
                    domain: {
                        normalise.slot_name.__wrapped__(slot): normalise.value.__wrapped__(
                            normalise.slot_name.__wrapped__(slot), given
                        )
                        for slot, given in slots.items()
                    }
                    for domain, slots in turn.state.items()
                }
            )
        said += responses
        references += corpus.references[name]
        domains = (
            [from_slots.__wrapped__(turn.response) for turn in turns]
            if active == "slots"
            else from_states(states)
        )
        inform, success = judge(name, corpus, responses, states, domains)
        totals["dialogues"] += 1
        totals["inform"] += inform
        totals["success"] += success
        for own, gold in zip(states, corpus.states[name], strict=True):
            compare(flat(own), flat(gold), totals)
    precision = totals["right"] / (totals["right"] + totals["spurious"])
    recall = totals["right"] / (totals["right"] + totals["missed"])
    return {
        "inform": 100 * totals["inform"] / totals["dialogues"],
        "success": 100 * totals["success"] / totals["dialogues"],
        "bleu": corpus_bleu(said, [references]).score,
        "joint_goal": 100 * totals["joint"] / totals["turns"],
        "slot_f1": 200 * precision * recall / (precision + recall),
    }


def judge(
    name: str, corpus: Corpus, responses: list[str], states: list[Any], domains: list[Any]
) -> tuple[bool, bool]:
    goal, rows = corpus.goals[name], corpus.database.rows
    offered: dict[str, set[str]] = {domain: set() for domain in goal}
    given: dict[str, set[str]] = {domain: set() for domain in goal}
    for response, state, active, booked in zip(
        responses, states, domains, corpus.booked[name], strict=True
    ):
        for domain in goal:
            if domain not in active:
                continue
            if domain in rows and ("TRAINID" if domain == "train" else "NAME") in response:
                found = query(rows[domain], domain, state[domain]) if domain in state else set()
                if not offered[domain] or not offered[domain] <= found:
                    offered[domain] = found
            for token in ("PHONE", "ADDRESS", "POST", "REFERENCE", "TRAINID"):
                if token in response and (token != "REFERENCE" or domain in booked):
                    given[domain].add(token)
    for domain, wanted in goal.items():
        if domain not in rows or "name" in wanted.informable:
            continue
        if domain == "train" and not offered["train"] and "TRAINID" not in wanted.requestable:
            continue
        fitting = query(rows[domain], domain, wanted.informable)
        if not offered[domain] or not offered[domain] <= fitting:
            return False, False
    return True, all(set(wanted.requestable) <= given[d] for d, wanted in goal.items())


def compare(own: dict[Any, str], gold: dict[Any, str], totals: Counter[str]) -> None:
    right = sum(key in gold and partial_ratio(own[key], gold[key]) > 95 for key in own)
    totals["turns"] += 1
    totals["joint"] += right == len(own) == len(gold)
    totals["right"] += right
    totals["spurious"] += len(own) - right
    totals["missed"] += len(gold) - right


def flat(state: Mapping[str, Mapping[str, Any]]) -> dict[Any, str]:
    return {(d, s): v for d, slots in state.items() for s, v in slots.items() if v is not None}
