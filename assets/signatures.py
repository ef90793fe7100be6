"""What determines the content of each unit of work: noted when it is made, compared when it may be stale.

Each signature is taken before the tables are read. Should they change in between, the note is older than
the content, and the unit is made once more: never the other way round.
"""

import datetime as dt
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from assets.partitions import days_before, shard_keys
from assets.tables import CODE_VERSION
from gavel.dialogue.corpus import database_folder
from gavel.dialogue.loading import corpus_files
from gavel.dialogue.multiwoz import VERSION
from gavel.dialogue.results import prediction_file
from gavel.judge.backends import evaluator_named
from gavel.judge.evaluate import Judge, config_hash
from gavel.logs.sources import fingerprint, undated_since
from gavel.settings.dialogue import Dialogue
from gavel.store.files import Store
from gavel.store.manifests import Manifest, read_manifest
from gavel.suite import Suite
from resources.bigquery import connect

EARLIER = "earlier days"
"""The part of a publication's signature that the days before it make."""

Read = Callable[[Path], Manifest | None]
"""Reads a manifest, such as `read_manifest`."""


def ingest_manifest(store: Store, day: str) -> Path:
    """The manifest that says what the ingest of `day` was made from."""
    return store.document(f"logs/clean/{day}")


def judge_manifest(suite: Suite, store: Store, task: str, day: str, shard: str) -> Path:
    """The manifest that says what the judging of a shard was made from: that of its last table."""
    return store.document(f"{_judged_last(suite, task)}/{day}/{shard}")


def _judged_last(suite: Suite, task: str) -> str:
    return f"{task}/{'opinions' if suite.settings_of(task).others else 'regenerated'}"


def publish_manifest(store: Store, day: str) -> Path:
    """The manifest that says what the publication of `day` was made from."""
    return store.document(f"report/{day}")


def scores_manifest(store: Store, task: str, day: str) -> Path:
    """The manifest that says what the scores of a task were made from, and what their content is."""
    return store.document(f"{task}/scores/{day}")


def look_at_manifests(suite: Suite, store: Store, since: str = "") -> None:
    """Look at the manifests above of every day from `since` on at once, where that takes fewer requests.

    Of the scores also at those of the days before that drift is measured against.
    """
    store.look("logs/clean", since)
    store.look("report", since)
    before = days_before(since, suite.quality.window_days)[-1] if since else ""
    for task in suite.task_names():
        store.look(_judged_last(suite, task), since, by_shard=True)
        store.look(f"{task}/scores", before)


def made_from(table: Path) -> dict[str, str]:
    """The signature of the table, by its manifest; empty where it has none."""
    manifest = read_manifest(table.with_suffix(".json"))
    return {} if manifest is None else dict(manifest.signature)


def ingest_signature(suite: Suite, day: str) -> dict[str, str] | None:
    """The sources' fingerprints of `day`; None while one of them has nothing yet. Raises SourceError."""
    settings = [source.model_dump() for source in suite.sources]
    date = dt.date.fromisoformat(day)
    signature = {
        "code": CODE_VERSION,
        "settings": _hash([settings, suite.task_names()]),
        "time zone": suite.timezone,
    }
    for source in suite.sources:
        found = fingerprint(source, date, suite, connect)
        if found is None:
            return None
        signature[f"rows of {source.name}"] = found
        if (first := undated_since(source, date, suite)) is not None:
            signature[f"first day of {source.name}"] = first
    return signature


def shard_signature(suite: Suite, task: str, ingested: Manifest | None) -> dict[str, str]:
    """What a shard is made from: the task's records of the day, and how many shards they are dealt to."""
    rows = {} if ingested is None else ingested.figures.get("tasks", {})
    return {"rows": str(rows.get(task, "")), "shards": str(suite.shards), "code": CODE_VERSION}


def verdict_signature(judge: Judge) -> dict[str, str]:
    """What verdicts are made from besides the shard."""
    rubric = judge.rubric
    return {
        "rubric": rubric.stamp,
        "evaluator": f"{judge.evaluator_name} {judge.config_hash}",
    }


def opinion_signature(suite: Suite, task: str) -> dict[str, str]:
    """What the opinions of other evaluators are made from besides the verdicts; nothing where none is asked."""
    settings = suite.settings_of(task)
    if not settings.others:
        return {}
    asked = [(name, config_hash(evaluator_named(suite, name))) for name in settings.others]
    return {"others": _hash([settings.model_dump(include={"panel", "escalation"}), asked])}


def judge_signature(suite: Suite, judge: Judge, ingested: Manifest) -> dict[str, str]:
    """What a judged shard is made from, regeneration and the opinions of others included."""
    task = judge.rubric.task
    return {
        **shard_signature(suite, task, ingested),
        **verdict_signature(judge),
        "attempts": str(suite.regeneration_attempts),
        **opinion_signature(suite, task),
    }


def scores_signature(
    suite: Suite, store: Store, task: str, day: str, read: Read = read_manifest
) -> dict[str, str]:
    """What the scores of a task are made from: the content of its judged shards."""
    shards = [judge_manifest(suite, store, task, day, shard) for shard in shard_keys(suite)]
    return {"rows": _hash([_content(read(shard)) for shard in shards])}


def earlier_signature(
    suite: Suite, store: Store, task: str, day: str, read: Read = read_manifest
) -> dict[str, str]:
    """What the drift of a task is measured against: the content of the scores of the window's days, as made."""
    made = (
        (before, read(scores_manifest(store, task, before)))
        for before in days_before(day, suite.quality.window_days)
    )
    content = [(before, scores.figures.get("content")) for before, scores in made if scores]
    return {EARLIER: _hash(content)}


def publish_signature(
    suite: Suite,
    store: Store,
    day: str,
    tasks: Sequence[str],
    ingested: Manifest | None,
    read: Read = read_manifest,
) -> dict[str, str]:
    """What the publication of `day` is made from, as its judged shards and the scores of earlier days are now."""
    scores = {task: scores_signature(suite, store, task, day, read)["rows"] for task in tasks}
    earlier = {task: earlier_signature(suite, store, task, day, read)[EARLIER] for task in tasks}
    return _publication(suite, ingested, scores, earlier)


def reported_signature(
    suite: Suite, store: Store, day: str, tasks: Sequence[str]
) -> dict[str, str]:
    """What the publication of `day` is made from, as its scores and its drift were made."""

    def noted(table: str, part: str) -> dict[str, str]:
        return {t: made_from(store.existing(f"{t}/{table}", day)).get(part, "") for t in tasks}

    ingested = read_manifest(ingest_manifest(store, day))
    return _publication(suite, ingested, noted("scores", "rows"), noted("quality", EARLIER))


def _publication(
    suite: Suite,
    ingested: Manifest | None,
    scores: Mapping[str, str],
    earlier: Mapping[str, str],
) -> dict[str, str]:
    rejected = "" if ingested is None else str(ingested.figures.get("rejected", ""))
    return {
        "code": CODE_VERSION,
        "rows rejected": rejected,
        "settings": _hash([suite.name, suite.quality.model_dump()]),
        **{f"rows {task}": rows for task, rows in scores.items()},
        EARLIER: _hash(earlier),
    }


def dialogue_signature(
    suite: Suite, settings: Dialogue, system: str, content: Callable[[Path], str]
) -> dict[str, str]:
    """What the results and pages of a dialogue system are made from; `content` reads the hash of a file."""
    files = corpus_files(suite.path(settings.corpus))
    if settings.acts_database is not None:
        files += sorted(database_folder(suite.path(settings.acts_database)).glob("*.json"))
    return {
        "code": f"{CODE_VERSION}.{VERSION}",
        "predictions": _content_of(prediction_file(suite, settings, system), content),
        "corpus": _hash([[path.name, _content_of(path, content)] for path in files]),
        "options": _hash(settings.options_of(system).model_dump()),
        "pages": str(settings.pages),
    }


def ranking_signature(
    suite: Suite, settings: Dialogue, results: Sequence[Path], content: Callable[[Path], str]
) -> dict[str, str]:
    """What the leaderboard is made from besides the content of the systems' `results`."""
    ratings = settings.ratings
    systems = [[p.stem, prediction_file(suite, settings, p.stem).exists()] for p in results]
    return {
        "code": CODE_VERSION,
        "settings": _hash([suite.name, settings.resamples, settings.confidence, settings.seed]),
        "systems": _hash(systems),
        "ratings": "" if ratings is None else _content_of(suite.path(ratings), content),
    }


def _content_of(path: Path, content: Callable[[Path], str]) -> str:
    try:
        return content(path)
    except OSError:
        return "absent"


def _content(judged: Manifest | None) -> list[Any]:
    """The content of a judged shard: its verdicts, and those made again."""
    return [] if judged is None else [judged.figures.get(k) for k in ("verdicts", "content")]


def _hash(value: Any) -> str:
    text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS, default=str)
    return hashlib.sha256(text).hexdigest()[:32]
