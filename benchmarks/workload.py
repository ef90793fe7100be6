"""Made-up work for the benchmarks: a shard of chat records, and a valid answer to every one of them."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from gavel.judge.prompts import Prompts, Record
from gavel.judge.rubric import Rubric, load_rubric
from gavel.logs.schema import SHARD
from gavel.store.tables import write_batches

PROMPTS = Path(__file__).parents[1] / "prompts"
DAY = dt.date(2026, 11, 2)
MODEL = "instant"

_SPOKEN = (
    "can you tell me whether this cordless drill comes with two batteries and a charger or do I "
    "need to order them apart which grout fits porcelain tiles in a shower how much paint for a "
    "bedroom of twelve square metres is the oak laminate in stock in my store when will the "
    "delivery of the garden shed arrive thanks for your help returns within thirty days please"
).split()
_BATCH = 10_000


def chat_rubric() -> Rubric:
    """The rubric of prompts/chat."""
    return load_rubric(PROMPTS / "chat")


def valid_answer(rubric: Rubric) -> dict[str, Any]:
    """An answer that the rubric accepts: middling scores, the first label values."""
    answer: dict[str, Any] = {
        "rationale": "It answers the question and names the article, but not the next step to take.",
        **{d.name: round((d.min + d.max) / 2) for d in rubric.dimensions},
    }
    for label in rubric.labels:
        answer[label.name] = label.values[0].name
        if label.nested is not None:
            answer[label.nested] = label.values[0].values[0].name
    return {**answer, "confidence": 0.8}


def write_shard(path: Path, records: int, seed: int = 7) -> None:
    """Write `records` different chat records as one shard."""
    write_batches(path, SHARD, _batches(records, random.Random(seed)))


def write_messages(folder: Path, rubric: Rubric, records: int, seed: int = 7) -> None:
    """Write the same records as peers get them: rendered, so that they need not do that themselves.

    `question.json` holds system message, schema and model; `users.jsonl` one user message a line.
    """
    prompts = Prompts(rubric, "prompts/chat")
    question = {"system": prompts.system, "schema": rubric.response_schema(), "model": MODEL}
    (folder / "question.json").write_text(json.dumps(question))
    chance = random.Random(seed)
    with (folder / "users.jsonl").open("w") as users:
        for number in range(records):
            prompt, response = _texts(number, chance)
            record = Record(prompt, response, language="en", out_of_coverage=False)
            users.write(json.dumps(prompts.user(record)) + "\n")


def body_bytes(rubric: Rubric) -> int:
    """About how long the body of a request is."""
    record = Record(*_texts(0, random.Random(0)), language="en")
    prompts = Prompts(rubric, "prompts/chat")
    texts = [prompts.system, prompts.user(record), rubric.response_schema()]
    return len(json.dumps(texts, ensure_ascii=False, separators=(",", ":")).encode()) + 250


def _batches(records: int, chance: random.Random) -> Iterator[pa.RecordBatch]:
    for first in range(0, records, _BATCH):
        rows = [_row(number, chance) for number in range(first, min(first + _BATCH, records))]
        yield pa.RecordBatch.from_pylist(rows, schema=SHARD)


def _row(number: int, chance: random.Random) -> dict[str, Any]:
    prompt, response = _texts(number, chance)
    start = dt.datetime(DAY.year, DAY.month, DAY.day, tzinfo=dt.UTC)
    start += dt.timedelta(milliseconds=number)
    return {
        "row_id": hashlib.sha256(b"%d" % number).hexdigest()[:32],
        "source": "benchmark",
        "record_id": f"m{number}",
        "user_id": f"u{number % 5000}",
        "conversation_id": f"c{number // 4}",
        "start_time": start,
        "end_time": start,
        "created_date": DAY,
        "task": "chat",
        "prompt": prompt,
        "response": response,
        "language": "en",
        "out_of_coverage": False,
        "source_file": "benchmark",
        "source_line": number + 1,
        "shard": 0,
        "shard_row": number,
    }


def _texts(number: int, chance: random.Random) -> tuple[str, str]:
    asked = " ".join(chance.choices(_SPOKEN, k=15)).capitalize() + f", {number}?"
    return asked, " ".join(chance.choices(_SPOKEN, k=40)).capitalize() + "."
