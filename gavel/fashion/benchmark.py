"""The steps of the benchmark, from table to table: each reads what the one before has written."""

from __future__ import annotations

import csv
import hashlib
import io
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from gavel.agreement.bootstrap import Resampling
from gavel.errors import FashionError
from gavel.fashion import goals as goal_table
from gavel.fashion import verify
from gavel.fashion.conversation import Conversation
from gavel.fashion.dataset import (
    DATASET,
    SIMULATED,
    STATISTICS,
    conversations_of,
    rows_of,
    statistics,
)
from gavel.fashion.evaluate import evaluate_system
from gavel.fashion.goals import goal_of, make_goals
from gavel.fashion.leaderboard import leaderboard
from gavel.fashion.prompts import files_hash
from gavel.fashion.scores import RESULTS, PairScores, add_scores
from gavel.fashion.simulate import Ground, Progress, simulate
from gavel.fashion.translate import scripted_translator, subset, translate
from gavel.fashion.vocabulary import ENGLISH
from gavel.inference.ledger import Ledger
from gavel.store.files import Store, write_text
from gavel.store.tables import content_hash, write_table
from gavel.text.bertscore import (
    MISSING,
    available,
    baseline_of,
    default_model,
    rescaled,
    scorer_of,
)
from gavel.text.embeddings import EMBEDDED, embed

VERSION = "3"
"""Raised whenever a figure would be another of the same data."""

_OF_EVALUATOR = {"temperature", "max_tokens", "seed", "extra_body", "prices"}
_OF_REPLAY = {"attempts", "catalogue", "shown"}
_OF_LIVE = {"customers", "turn_limit"}
"""The settings that determine results beside those that stand in a signature by their names."""


@dataclass(frozen=True)
class Bench:
    """The benchmark of one run: its settings, where its tables stand, and which run asks."""

    ground: Ground
    store: Store
    run_id: str
    progress: Progress = lambda _: None

    def ledger(self, scope: str, worker: str) -> Any:
        """The ledger of one step, open for this run."""
        return Ledger.open(self.store.ledger(f"fashion/{scope}"), self.run_id, worker)


def write_goals(bench: Bench) -> Path:
    """Write fashion/goals: the goals of both splits, with the customer each is given to."""
    made = make_goals(bench.ground.settings, bench.ground.vocabulary)
    return _write(bench, "goals", None, goal_table.SCHEMA, [goal.row() for goal in made])


def write_simulated(bench: Bench) -> Path:
    """Write fashion/simulated: one conversation for each goal, in English, row by message pair."""
    vocabulary = bench.ground.vocabulary
    rows = _rows(bench.store.existing("fashion/goals"))
    with bench.ledger("simulation", "simulated") as ledger:
        conversations = simulate(
            bench.ground, [goal_of(row, vocabulary) for row in rows], ledger, bench.progress
        )
    made = [row for c in conversations for row in rows_of(c)]
    return _write(bench, "simulated", None, SIMULATED, made)


def write_verified(bench: Bench) -> Path:
    """Write fashion/verified: which simulated conversations are kept, by whom decided and why.

    Raises:
        FashionError: the file of people's decisions is malformed, or names an unknown conversation.
    """
    settings, vocabulary = bench.ground.settings, bench.ground.vocabulary
    rows = _rows(bench.store.existing("fashion/simulated"))
    details = {row["id"]: row["fault_detail"] for row in rows}
    conversations = conversations_of(rows, vocabulary)
    people = _people(bench)
    unknown = {identity for identity, _ in people} - {c.goal.id for c in conversations}
    if unknown:
        raise FashionError(
            f"{settings.decisions}: {min(unknown)!r} is no conversation of fashion/simulated; ids stand there"
        )
    checks: Sequence[verify.Check | None] = [None] * len(conversations)
    if settings.verifier is not None:
        with bench.ledger("verification", "verified") as ledger:
            voice = bench.ground.voice(settings.verifier, ledger, lambda request: "", "")
            checks = verify.checked(voice, bench.ground.prompts, conversations)
    decided = [
        verify.decide(c, verify.flags(c, vocabulary, details[c.goal.id]), check, people).row(c)
        for c, check in zip(conversations, checks, strict=True)
    ]
    return _write(bench, "verified", None, verify.SCHEMA, decided)


@dataclass(frozen=True)
class LanguageData:
    """The data set of a language, what was removed from it, and of how many conversations each consists.

    `selected` = `kept` + `lost`.
    """

    conversations: Path
    removed: Path
    selected: int
    kept: int
    lost: int


def write_language(bench: Bench, language: str) -> LanguageData:
    """Write fashion/conversations and fashion/removed of `language`, and the sample for people to verify.

    English has the verified conversations; another language their translation, or that of a subset. What is
    removed in English is translated only where a person keeps it in that very language.
    """
    ground, settings = bench.ground, bench.ground.settings
    simulated = conversations_of(
        _rows(bench.store.existing("fashion/simulated")), ground.vocabulary
    )
    verified = {row["id"]: row for row in _rows(bench.store.existing("fashion/verified"))}
    removed: list[dict[str, Any]] = []
    if language == ENGLISH:
        selected = simulated
        kept = [c for c in simulated if verified[c.goal.id]["kept"]]
        removed = [row for row in verified.values() if not row["kept"]]
    else:
        people = _people(bench)
        left = [
            c
            for c in simulated
            if verified[c.goal.id]["kept"]
            or (c.turns and people.get((c.goal.id, language), (False,))[0])
        ]
        selected = subset(left, settings.subsets.get(language), settings.split, settings.seed)
        with bench.ledger(f"translation/{language}", language) as ledger:
            rule = scripted_translator(ground.scripts.phrases, language)
            revision = f"{ground.scripts.revision}|{language}"
            voice = ground.voice(settings.translator, ledger, rule, revision)
            translated, lost = translate(voice, ground.prompts, selected, language)
        kept = []
        english = {c.goal.id: c for c in selected}
        for c in translated:
            found = verify.flags_of_translation(c, english[c.goal.id])
            decision = verify.decide(c, found, None, people)
            if decision.kept:
                kept.append(c)
            else:
                removed.append(decision.row(c))
        for c in selected:
            if c.goal.id in lost:
                decision = verify.Decision()
                decision.flag("translation", lost[c.goal.id], "rules")
                removed.append({**decision.row(c), "language": language})
    rows = [{**row, "language": language} for c in kept for row in rows_of(c)]
    _sample(bench, language, simulated, kept)
    return LanguageData(
        _write(bench, "conversations", language, DATASET, rows),
        _write(bench, "removed", language, verify.SCHEMA, removed),
        len(selected),
        len(kept),
        len(removed),
    )


def write_statistics(bench: Bench, language: str) -> Path:
    """Write fashion/statistics of `language`."""
    rows = _rows(bench.store.existing("fashion/conversations", language))
    found = statistics(rows, bench.ground.vocabulary)
    return _write(bench, "statistics", language, STATISTICS, found)


def write_results(bench: Bench, system: str, language: str) -> Path:
    """Write fashion/results of `system` in `language`: its queries, failures, cost and scores.

    Raises:
        FashionError: a model named in the settings cannot be loaded.
        EvaluatorOutage, EvaluatorRefused, BudgetSpent: what was answered is in the ledger.
    """
    ground, settings = bench.ground, bench.ground.settings
    path = bench.store.existing("fashion/conversations", language)
    data = conversations_of(_rows(path), ground.vocabulary, language)
    with bench.ledger(f"systems/{system}/{language}", system) as ledger:
        rows = evaluate_system(ground, system, language, data, ledger, bench.progress)
    texts = [theme.description for theme in ground.vocabulary.themes.values()]
    texts += [row["goal"] for row in rows if row["goal_kind"] == "item"]
    texts += [query for row in rows for search in row["searches"] for query in search]
    named = settings.embeddings.evaluator
    endpoint = None if named is None else ground.suite.evaluators[named]
    with bench.ledger("embeddings", system) as ledger:
        vectors = embed(texts, endpoint, ledger)
    bertscore = _bertscore(bench, language)
    add_scores(rows, ground.vocabulary, settings.queries, bertscore.score, vectors, bertscore.why)
    signature = f"{_made_from(bench, system, path)}|bertscore:{bertscore.signature}"
    for row in rows:
        row["signature"] = signature
    return _write(bench, "results", f"{language}/{system}", RESULTS, rows)


def _made_from(bench: Bench, system: str, data: Path) -> str:
    """All that determines the results of `system` on the conversations in `data`, but the model of BERTScore."""
    ground, settings = bench.ground, bench.ground.settings
    known = settings.systems[system]
    named = settings.embeddings.evaluator
    embedding = EMBEDDED if named is None else ground.suite.evaluators[named].model
    evaluator = None if known.evaluator is None else ground.suite.evaluators[known.evaluator]
    decided = [
        known.model_dump(),
        evaluator and evaluator.model_dump(include=_OF_EVALUATOR),
        settings.model_dump(
            include=_OF_REPLAY | (_OF_LIVE if settings.customer == "live" else set())
        ),
        [settings.bertscore.model_dump(exclude={"batch_tokens"}), available()],
    ]
    digest = hashlib.sha256(orjson.dumps(decided, option=orjson.OPT_SORT_KEYS)).hexdigest()
    return (
        f"fashion|v:{VERSION}|data:{content_hash(data)[:12]}"
        f"|system:{known.kind if evaluator is None else evaluator.model}|prompt:{known.prompt}"
        f"|texts:{files_hash(ground.folder)}|split:{settings.split}|customer:{settings.customer}"
        f"|carousel:{settings.carousel}|queries:{settings.queries}|settings:{digest[:12]}"
        f"|embeddings:{embedding}"
    )


def write_leaderboard(bench: Bench) -> tuple[Path, int]:
    """Write fashion/leaderboard over the results of the settings' systems and languages; how many had some.

    Results that were made from other conversations or settings than there are now are marked as outdated.
    """
    settings = bench.ground.settings
    rows: list[dict[str, Any]] = []
    outdated = set()
    found = 0
    for language in settings.languages:
        data = bench.store.table("fashion/conversations", language)
        for system in settings.systems:
            path = bench.store.table("fashion/results", language, system)
            if not path.exists():
                continue
            own = _rows(path)
            made_from = f"{_made_from(bench, system, data)}|" if data.exists() else None
            if made_from is None or not all(r["signature"].startswith(made_from) for r in own):
                outdated.add((language, system))
            rows += own
            found += 1
    path = bench.store.table("fashion/leaderboard")
    write_table(path, leaderboard(rows, Resampling.of(settings), outdated))
    return path, found


@dataclass(frozen=True)
class _BertScore:
    """How BERTScore is computed in a language: `score` is None where nothing computes it, and `why` says so."""

    score: PairScores | None
    signature: str
    why: str = ""


def _bertscore(bench: Bench, language: str) -> _BertScore:
    """BERTScore by the model of the settings, or else of the bert-score package, for `language`.

    Raises:
        FashionError: the model was named in the settings and cannot be loaded.
    """
    settings = bench.ground.settings.bertscore
    if not settings.enabled:
        return _BertScore(None, "none", "no BERTScore: fashion.bertscore.enabled is false")
    if not available():
        return _BertScore(None, "none", f"no BERTScore: {MISSING}")
    named = settings.models.get(language) or settings.models.get("default")
    model = named or default_model(language)
    # A folder is named from the suite's; anything else is a name that transformers knows.
    folder = bench.ground.suite.path(model)
    path = str(folder) if folder.is_dir() else model
    try:
        scorer = scorer_of(path, settings.layers.get(model), settings.batch_tokens)
    except FashionError as error:
        if named is not None:
            raise
        return _BertScore(None, "none", f"no BERTScore: {error}")
    baseline = baseline_of(language, model, scorer.layer) if settings.rescale else None
    shown = "none" if baseline is None else f"{baseline:.6g}"
    return _BertScore(
        lambda queries, goals: rescaled(scorer.score(queries, goals).f1, baseline),
        f"{scorer.signature}|baseline:{shown}",
    )


def _people(bench: Bench) -> Mapping[tuple[str, str], tuple[bool, str]]:
    path = bench.ground.settings.decisions
    return {} if path is None else verify.read_decisions(bench.ground.suite.path(path))


def _sample(
    bench: Bench, language: str, simulated: Sequence[Conversation], kept: Sequence[Conversation]
) -> None:
    """A CSV of some kept conversations for people to verify: the form that `fashion.decisions` takes back."""
    settings = bench.ground.settings
    english = {c.goal.id: c for c in simulated}
    chance = random.Random(f"{settings.seed}|sample|{language}")
    chosen = chance.sample(kept, min(settings.to_verify, len(kept)))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["id", "language", "decision", "reason", "goal", "english", "conversation"])
    for c in sorted(chosen, key=lambda c: c.goal.id):
        told = ("" if language == ENGLISH else _told(english[c.goal.id]), _told(c))
        writer.writerow([_safe(cell) for cell in (c.goal.id, language, "", "", c.goal.text, *told)])
    write_text(bench.store.root / "fashion" / "to_verify" / f"{language}.csv", text.getvalue())


def _told(conversation: Conversation) -> str:
    lines = []
    for turn in conversation.turns:
        lines.append(f"customer: {turn.customer}")
        if turn.text:
            lines.append(f"assistant: {turn.text}")
        if turn.queries:
            lines.append(f"search: {' | '.join(turn.queries)}")
    return "\n".join(lines)


def _safe(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    return f"'{cell}" if cell[:1] in ("=", "+", "-", "@", "\t", "\r") else cell


def _rows(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return found


def _write(
    bench: Bench, name: str, partition: str | None, schema: pa.Schema, rows: Sequence[Any]
) -> Path:
    path = bench.store.table(
        f"fashion/{name}", *(() if partition is None else partition.split("/"))
    )
    table = pa.Table.from_pylist(
        [{f.name: row.get(f.name) for f in schema} for row in rows], schema
    )
    write_table(path, table)
    return path
