"""The pages of the dialogue benchmark: the leaderboard with its picture, and single dialogues with marks."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gavel.dialogue.acts import Act, holds_acts, parse_acts
from gavel.dialogue.corpus import State
from gavel.dialogue.database import SEARCHED
from gavel.dialogue.figures import FIGURES
from gavel.dialogue.inform import PROVIDED, REASONS
from gavel.dialogue.leaderboard import COMPARED, outdated_because
from gavel.dialogue.loading import load_corpus
from gavel.dialogue.multiwoz import REFERENCE, STRICT, as_seen
from gavel.dialogue.predictions import parse_predictions, read_document
from gavel.dialogue.results import prediction_file
from gavel.report.page import environment
from gavel.settings.dialogue import Dialogue
from gavel.suite import Suite

TITLES = {
    ("multiwoz", "inform"): "Inform",
    ("multiwoz", "success"): "Success",
    ("multiwoz", "bleu"): "BLEU",
    ("multiwoz", "combined"): "Combined, 0 to 200",
    ("multiwoz", "joint_goal"): "Joint goal accuracy",
    ("multiwoz", "slot_f1"): "Slot F1",
    ("multiwoz", "bleu_text"): "BLEU of the words themselves",
    ("multiwoz", "entity_consistency"): "Entity consistency",
    ("dstc8", "success"): "Success",
    ("dstc8", "book"): "Book rate",
    ("dstc8", "precision"): "Inform precision",
    ("dstc8", "recall"): "Inform recall",
    ("dstc8", "f1"): "Inform F1",
    ("dstc8", "return"): "Return",
    ("dstc8", "turns"): "Turns",
    ("human", "human_rating"): "Human rating, 1 to 5",
    ("human", "rater_alpha"): "Agreement of the raters, Krippendorff's alpha",
}
TRACKS = {
    "multiwoz": "MultiWOZ",
    "dstc8": "DSTC8 Track 1",
    "human": "People",
}
_OTHER = {STRICT: REFERENCE, "dstc8": "convlab2"}
_TOKEN = re.compile(rf"({'|'.join((*PROVIDED, 'NAME'))})")


def render_leaderboard(suite: str, standings: pa.Table, comparisons: pa.Table) -> str:
    """The HTML page of the leaderboard."""
    rows = standings.to_pylist()
    tracks = [
        {
            "name": name,
            "title": title,
            "panels": list(_panels(name, [row for row in rows if row["track"] == name])),
            "systems": list(_signatures(row for row in rows if row["track"] == name)),
            "comparisons": [
                {**pair, "title": TITLES[name, pair["figure"]]}
                for pair in comparisons.to_pylist()
                if pair["track"] == name and pair["figure"] in ("inform", "success", "combined")
            ],
        }
        for name, title in TRACKS.items()
        if any(row["track"] == name for row in rows)
    ]
    return (
        environment()
        .get_template("leaderboard.html.j2")
        .render(suite=suite, tracks=tracks, outdated=sorted(outdated_because(rows).items()))
    )


def _panels(track: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """One figure each: its systems, best first, with places in per cent of a common axis."""
    names = [figure.name for figure in FIGURES if figure.track == track] or [
        "human_rating",
        "rater_alpha",
    ]
    for name in names:
        shown = [row for row in rows if row["figure"] == name and row["value"] is not None]
        own = [row for row in shown if row["reading"] in (*COMPARED, "people")]
        if not own:
            continue
        other = {row["system"]: row for row in shown if row["reading"] in (REFERENCE, "convlab2")}
        known = ("low", "high", "value", "published")
        ends = [row[end] for row in shown for end in known if row[end] is not None]
        most = {"0-100": 100.0, "-1-1": 1.0}.get(own[0]["scale"], float("inf"))
        low, high = axis(min(ends), max(ends), most)
        place = partial(per_cent, low=low, high=high)
        yield {
            "title": TITLES[track, name],
            "low": low,
            "high": high,
            "rows": [
                {
                    **row,
                    "x": place(row["value"]),
                    "from": place(row["low"]),
                    "to": place(row["high"]),
                    "other": (beside := other.get(row["system"])),
                    "differs": beside is not None
                    and f"{beside['value']:.2f}" != f"{row['value']:.2f}",
                    "other_x": place(beside["value"]) if beside else None,
                    "published": beside["published"] if beside else None,
                    "published_x": place(beside["published"]) if beside else None,
                }
                for row in sorted(own, key=lambda row: -row["value"])
            ],
        }


def axis(low: float, high: float, most: float) -> tuple[float, float]:
    """Round ends that hold all values, with some room, but not beyond the `most` there can be."""
    span = max(high - low, 1e-9)
    step = next(s for s in (0.5, 1, 2, 5, 10, 20, 50, 100, 1000) if span / s <= 6)
    right = min(step * (high // step + 1), most)
    return min(step * (low // step), right - step), right


def per_cent(value: float | None, low: float, high: float) -> float | None:
    """Where `value` stands on an axis from `low` to `high`."""
    return None if value is None else round(100 * (value - low) / (high - low), 2)


def _signatures(rows: Iterator[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    seen = set()
    for row in rows:
        key = (row["system"], row["reading"])
        if key not in seen:
            seen.add(key)
            yield {
                "system": row["system"],
                "reading": row["reading"],
                "signature": row["signature"],
            }


def page_name(dialogue: str) -> str:
    """The name of a dialogue's page: its id, or where that can name no file, a hash of it."""
    if re.fullmatch(r"[A-Za-z0-9_.-]{1,100}", dialogue) and dialogue != "index":
        return dialogue
    return "dialogue-" + hashlib.sha256(dialogue.encode(errors="replace")).hexdigest()[:16]


class DialoguePages:
    """The pages of one system's dialogues, from its results, its predictions and the corpus.

    Raises:
        PredictionError, CorpusError: a file of them cannot be read any more.
    """

    def __init__(self, suite: Suite, settings: Dialogue, system: str, results: Path) -> None:
        self._suite, self._system = suite.name, system
        self._rows: dict[str, list[dict[str, Any]]] = {}
        for row in pq.read_table(results).to_pylist():
            self._rows.setdefault(row["dialogue_id"], []).append(row)
        file = prediction_file(suite, settings, system)
        document = read_document(file)
        if holds_acts(document):
            acts = parse_acts(file, document)
            self._turns: Mapping[str, list[dict[str, Any]]] = {
                name: [
                    {"customer": _told(turn.user), "system": [(_told(turn.system), False)]}
                    for turn in dialogue.exchanges
                ]
                for name, dialogue in acts.dialogues.items()
            }
            self._goals: Mapping[str, list[tuple[str, str, str]]] = {
                name: [
                    (
                        domain,
                        _slots(goal.info),
                        ", ".join([*goal.requests, *(["booking"] * bool(goal.book))]),
                    )
                    for domain, goal in dialogue.goal.items()
                    if goal.info or goal.book or goal.requests  # ConvLab's `topic` has none of them
                ]
                for name, dialogue in acts.dialogues.items()
            }
        else:
            corpus = load_corpus(suite.path(settings.corpus))
            predictions = parse_predictions(file, document)
            seen, unfounded = as_seen(predictions, corpus, settings.options_of(system))
            self._goals = {
                name: [(d, _slots(g.informable), ", ".join(g.requestable)) for d, g in goal.items()]
                for name, goal in corpus.goals.items()
            }
            self._turns = {
                name: [
                    {
                        "customer": texts[0] if (texts := _at(corpus.texts.get(name), n)) else None,
                        "system": _marked(turn.response),
                        "written": predictions.dialogues[name][n].response,
                        "unfounded": ", ".join(unfounded[name][n]) if name in unfounded else "",
                        "reference": corpus.references[name][n],
                        "domains": ", ".join(turn.domains),
                        "state": _states(turn.state),
                        "offers": _offers(turn.response, turn.domains),
                    }
                    for n, turn in enumerate(turns)
                ]
                for name, turns in seen.items()
            }

    def failed(self) -> list[str]:
        """The dialogues that failed under the reading the leaderboard compares, in their order."""
        return [
            name
            for name, rows in self._rows.items()
            if any(row["reading"] in COMPARED and not row["success"] for row in rows)
        ]

    def known(self, dialogue: str) -> bool:
        """Whether there are results of `dialogue`."""
        return dialogue in self._rows

    def render(self, dialogue: str) -> str:
        """The HTML page of one dialogue."""
        rows = self._rows[dialogue]
        own = next(row for row in rows if row["reading"] in COMPARED)
        by_turn: dict[int | None, list[dict[str, Any]]] = {}
        for failure in own["failures"]:
            by_turn.setdefault(failure["turn"], []).append(failure)
        return (
            environment()
            .get_template("dialogue.html.j2")
            .render(
                suite=self._suite,
                system=self._system,
                dialogue=dialogue,
                rows=rows,
                own=own,
                goals=self._goals.get(dialogue, []),
                turns=self._turns.get(dialogue, []),
                failures=own["failures"],
                by_turn=by_turn,
                reasons=REASONS,
            )
        )

    def index(self, shown: Sequence[str]) -> str:
        """The HTML page that lists the dialogues with a page of their own, and why they failed."""
        listed = [
            (name, page_name(name), next(r for r in self._rows[name] if r["reading"] in COMPARED))
            for name in shown
        ]
        counts: dict[str, int] = {}
        for rows in self._rows.values():
            for row in rows:
                if row["reading"] in COMPARED:
                    for reason in {failure["reason"] for failure in row["failures"]}:
                        counts[reason] = counts.get(reason, 0) + 1
        return (
            environment()
            .get_template("dialogues.html.j2")
            .render(
                suite=self._suite,
                system=self._system,
                listed=listed,
                failed=len(self.failed()),
                dialogues=len(self._rows),
                counts=sorted(counts.items(), key=lambda item: (-item[1], item[0])),
                reasons=REASONS,
            )
        )


def _marked(response: str) -> list[tuple[str, bool]]:
    """A response in pieces; those that count for Inform and Success are marked."""
    return [(piece, bool(_TOKEN.fullmatch(piece))) for piece in _TOKEN.split(response) if piece]


def _offers(response: str, domains: Sequence[str]) -> str:
    named = [
        domain
        for domain in domains
        if domain in SEARCHED and ("TRAINID" if domain == "train" else "NAME") in response
    ]
    return ", ".join(named)


def _states(state: State) -> str:
    return "; ".join(f"{domain}: {_slots(slots)}" for domain, slots in state.items() if slots)


def _slots(slots: Mapping[str, str | None]) -> str:
    return ", ".join(f"{slot} {value}" for slot, value in slots.items()) or "nothing"


def _told(acts: Sequence[Act]) -> str:
    return "; ".join(f"{a.domain}-{a.intent} {a.slot} {a.value}" for a in acts) or "(no act)"


def _at(items: Sequence[Any] | None, number: int) -> Any:
    return items[number] if items and number < len(items) else None
