"""Judging a shard: records to requests, asked through the spine, and the ledger's answers to verdicts.

Verdicts are a pure function of the shard and the ledger: whatever happened while asking, reading again
gives the same table.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from gavel.errors import StoreError
from gavel.inference.ask import Asked, ask
from gavel.inference.budget import Spending
from gavel.inference.ledger import Ledger, latest, places, segments, stored
from gavel.inference.request import Answer, Backend, Decoding, Message, Question, Request
from gavel.judge.confidence import TOP, by_samples, by_tokens
from gavel.judge.prompts import RECORD_COLUMNS, Fault, Prompts, Record
from gavel.judge.rubric import Rubric
from gavel.judge.tables import verdict_schema
from gavel.judge.verdicts import Reading, read_answer
from gavel.settings.judging import Evaluator
from gavel.store.tables import quoted, session, write_batches

_BATCH = 2_000
_SORTED = 20_000
"""How many records' answers are brought into order at once."""
_SESSION_MEMORY = "256MB"
_PLACE = ("shard_row", "row_id", "shard")
"""Where a record stands, and its verdict with it."""
_REPAIRED = {
    "not_json",
    "missing_field",
    "wrong_type",
    "out_of_range",
    "unknown_label",
    "label_mismatch",
    "refused",
}
"""Faults of what the model wrote: it is shown its answer and told. After the others it is just asked again."""
_SHOWN_ANSWER = 4_000
"""Characters of an invalid answer that the evaluator is shown again."""

Progress = Callable[[Asked, Counter[str]], None]


@dataclass(frozen=True)
class Judge:
    """One evaluator with one rubric: all that turns a record into a request and an answer into a verdict."""

    rubric: Rubric
    prompts: Prompts
    evaluator_name: str
    evaluator: Evaluator
    backend: Backend
    spending: Spending | None = None

    @cached_property
    def config_hash(self) -> str:
        """The hash of the evaluator's settings, as `config_hash`."""
        return config_hash(self.evaluator)

    def question(self, max_tokens: int, sample: int = 0) -> Question:
        """What all requests of this judge share, with room for `max_tokens` of answer.

        `sample` is 0 for the answer that counts, from 1 on for the further ones that are only compared with it.
        """
        evaluator = self.evaluator
        extra = dict(evaluator.extra_body)
        if evaluator.confidence == "logprobs":
            extra = {"logprobs": True, "top_logprobs": TOP, **extra}
        if evaluator.backend == "heuristic":
            # Rules read the rubric itself, also what no message shows.
            extra["rubric_hash"] = self.rubric.hash
        # Another seed is another request, so that the further answers are kept beside the first.
        seed = evaluator.seed if not sample else (evaluator.seed or 0) + sample
        decoding = Decoding(evaluator.temperature, max_tokens, seed, tuple(sorted(extra.items())))
        schema = self.rubric.response_schema()
        return Question(evaluator.model, decoding, self.prompts.system, schema, self.rubric.task)


def config_hash(evaluator: Evaluator) -> str:
    """The hash of the settings that determine an answer (not of how fast or where it is asked)."""
    settings = evaluator.model_dump(
        include={"backend", "model", "temperature", "seed", "max_tokens", "extra_body"}
    )
    if evaluator.confidence != "stated":
        settings |= evaluator.model_dump(include={"confidence", "samples"})
    return hashlib.sha256(orjson.dumps(settings, option=orjson.OPT_SORT_KEYS)).hexdigest()[:32]


@dataclass
class Judged:
    """What became of one attempt over some records."""

    asked: Asked = field(default_factory=Asked)
    rows: int = 0
    valid: int = 0
    faults: Counter[str] = field(default_factory=Counter)

    @property
    def invalid(self) -> int:
        """Records whose verdict has a fault."""
        return self.rows - self.valid


def judge_shard(
    judge: Judge,
    shard: Path,
    ledger: Ledger,
    out: Path,
    progress: Progress = lambda asked, faults: None,
) -> Judged:
    """Ask for a verdict on every record of `shard` and write them to `out`, one row a record, in order.

    Raises:
        EvaluatorOutage, EvaluatorRefused: `out` is left as it was, the ledger keeps what came.
    """
    # A shard's rows stand in order, and sorting them again would hold them all.
    with pq.ParquetFile(shard) as records:
        batches = records.iter_batches(_BATCH, columns=[*_PLACE, *RECORD_COLUMNS])
        return _judge(judge, batches, 1, ledger, out, progress)


def regenerate(
    judge: Judge,
    shard: Path,
    invalid: Path,
    ledger: Ledger,
    out: Path,
    attempts: int,
    progress: Progress = lambda asked, faults: None,
) -> list[Judged]:
    """Ask again for exactly the records of `invalid`, up to `attempts` times each, until valid.

    `out` gets one row a record and attempt, in the order of attempts. Returns one result an attempt made.

    Raises:
        EvaluatorOutage, EvaluatorRefused: as `judge_shard`.
    """
    results: list[Judged] = []
    parts: list[Path] = []
    work = invalid
    with tempfile.TemporaryDirectory() as folder:
        for attempt in range(2, attempts + 2):
            query = f"""
                SELECT s.*, v.faults, v.fault_detail, v.raw_response
                FROM read_parquet({quoted(shard)}) s
                JOIN read_parquet({quoted(work)}) v USING (row_id)
                WHERE v.status = 'invalid'
                ORDER BY s.shard_row
            """
            part = Path(folder, f"{attempt}.parquet")
            with session(_SESSION_MEMORY) as connection:
                batches = connection.sql(query).to_arrow_reader(_BATCH)
                result = _judge(judge, batches, attempt, ledger, part, progress)
            if not result.rows:
                break
            results.append(result)
            parts.append(part)
            work = part
        batches = (batch for part in parts for batch in pq.ParquetFile(part).iter_batches())
        write_batches(out, verdict_schema(judge.rubric), batches)
    return results


def _judge(
    judge: Judge,
    batches: Iterable[pa.RecordBatch],
    attempt: int,
    ledger: Ledger,
    out: Path,
    progress: Progress,
) -> Judged:
    """One attempt over the records of `batches`, which are in the order of `shard_row`."""
    judged = Judged()
    work: list[pa.RecordBatch] = []
    faults: Counter[str] = Counter()

    def report(asked: Asked, answers: list[Answer]) -> None:
        for answer in answers:
            faults.update(_codes(read_answer(_row(answer), judge.rubric)))
        progress(asked, faults)

    requests = _requests(judge, batches, attempt, work)
    judged.asked = ask(requests, judge.backend, ledger, report, judge.spending)
    schema = verdict_schema(judge.rubric)
    write_batches(out, schema, _verdicts(judge, work, attempt, ledger, schema, judged))
    return judged


@dataclass(frozen=True, slots=True)
class Previous:
    """The invalid verdict that a record is asked again after; nothing at the first attempt."""

    faults: Sequence[str] = ()
    fault_detail: str | None = None
    raw_response: str | None = None


class Asker:
    """Makes the request of each record at one attempt."""

    def __init__(self, judge: Judge, attempt: int) -> None:
        self._judge = judge
        self._attempt = attempt
        tokens = judge.evaluator.max_tokens
        self._question = judge.question(tokens)
        samples = judge.evaluator.samples if judge.evaluator.confidence == "sampled" else 1
        self._samples = [judge.question(tokens, sample) for sample in range(1, samples)]
        # After a cut answer there is twice the room, at each attempt; decoding is part of the hash.
        self._roomier = judge.question(tokens * 2 ** (attempt - 1))

    def request(self, record: Record, previous: Previous) -> Request:
        """The request for `record`, which `previous` was wrong about."""
        question = self._roomier if "truncated" in previous.faults else self._question
        messages = _messages(self._judge.prompts, record, previous)
        return question.request(messages, self._attempt, (self._judge.rubric, record))

    def further(self, record: Record, previous: Previous) -> list[Request]:
        """The same asked again, where confidence is by repeated answers."""
        if not self._samples:
            return []
        messages = _messages(self._judge.prompts, record, previous)
        subject = (self._judge.rubric, record)
        return [each.request(messages, self._attempt, subject) for each in self._samples]


def _messages(prompts: Prompts, record: Record, previous: Previous) -> tuple[Message, ...]:
    first = Message("user", prompts.user(record))
    told = bool(previous.faults) and _REPAIRED.issuperset(previous.faults)
    if previous.raw_response is None or previous.fault_detail is None or not told:
        return (first,)
    details = previous.fault_detail.split("\n")
    faults = [Fault(code, detail) for code, detail in zip(previous.faults, details, strict=True)]
    answer = Message("assistant", previous.raw_response[:_SHOWN_ANSWER])
    return first, answer, Message("user", prompts.repair(faults))


def _requests(
    judge: Judge, batches: Iterable[pa.RecordBatch], attempt: int, work: list[pa.RecordBatch]
) -> Iterator[Request]:
    """The request of each record, noting in `work` which record has which request."""
    asker = Asker(judge, attempt)
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in RECORD_COLUMNS]
        records = (Record(*values) for values in zip(*columns, strict=True))
        hashes: list[str] = []
        further: list[list[str]] = []
        for record, previous in zip(records, _previous(batch, attempt), strict=True):
            request = asker.request(record, previous)
            hashes.append(request.request_hash)
            yield request
            again = asker.further(record, previous)
            further.append([each.request_hash for each in again])
            yield from again
        places = [batch.column(name) for name in _PLACE]
        made = [pa.array(hashes, pa.string()), pa.array(further, pa.list_(pa.string()))]
        work.append(
            pa.RecordBatch.from_arrays([*places, *made], [*_PLACE, "request_hash", "further"])
        )


def _previous(batch: pa.RecordBatch, attempt: int) -> Iterable[Previous]:
    if attempt == 1:
        return [Previous()] * batch.num_rows
    names = [field.name for field in fields(Previous)]
    columns = [batch.column(name).to_pylist() for name in names]
    return [Previous(*values) for values in zip(*columns, strict=True)]


def _verdicts(
    judge: Judge,
    work: Sequence[pa.RecordBatch],
    attempt: int,
    ledger: Ledger,
    schema: pa.Schema,
    judged: Judged,
) -> Iterator[pa.RecordBatch]:
    """Join the records with the ledger's answers, by request_hash, and read each answer."""
    if not work:
        return
    files = segments(ledger.folder)
    with session(_SESSION_MEMORY, spill=ledger.folder / ".spill") as connection:
        connection.register("work", pa.Table.from_batches(work))
        connection.execute(
            "CREATE TEMP TABLE placed AS "
            f"SELECT * FROM work LEFT JOIN ({places(files, attempt)}) USING (request_hash)"
        )
        # Sorted part by part, so that memory does not grow with the texts of the answers.
        for part in range(0, sum(batch.num_rows for batch in work), _SORTED):
            connection.execute(
                "CREATE OR REPLACE TEMP TABLE part AS "
                f"FROM placed ORDER BY shard_row LIMIT {_SORTED} OFFSET {part}"
            )
            found = connection.execute(
                "SELECT DISTINCT filename FROM part WHERE filename IS NOT NULL ORDER BY filename"
            ).fetchall()
            answers = stored([Path(name) for (name,) in found])
            joined = connection.sql(
                "SELECT part.* EXCLUDE (filename, file_row_number), "
                "answer.* EXCLUDE (request_hash, attempt, filename, file_row_number) "
                f"FROM part LEFT JOIN {answers} answer USING (filename, file_row_number) "
                "ORDER BY shard_row"
            )
            for batch in joined.to_arrow_reader(_BATCH):
                # Asked of a cursor of its own: another query of the connection would end the reader.
                samples = _samples(judge, connection.cursor(), files, batch, attempt)
                yield _read_batch(judge, batch, samples, attempt, ledger.run_id, schema, judged)


def _samples(
    judge: Judge,
    connection: duckdb.DuckDBPyConnection,
    files: Sequence[Path],
    batch: pa.RecordBatch,
    attempt: int,
) -> dict[str, dict[str, Any]]:
    """The values of the valid ones among the further answers of `batch`, by request_hash."""
    if judge.evaluator.confidence != "sampled":
        return {}
    connection.register("further", pa.table({"request_hash": batch.column("further").flatten()}))
    rows = connection.sql(
        f"SELECT * FROM ({latest(files, attempt)}) SEMI JOIN further USING (request_hash)"
    ).to_arrow_table()
    readings = {row["request_hash"]: read_answer(row, judge.rubric) for row in rows.to_pylist()}
    return {name: reading.values for name, reading in readings.items() if reading.valid}


def _read_batch(
    judge: Judge,
    batch: pa.RecordBatch,
    samples: Mapping[str, Mapping[str, Any]],
    attempt: int,
    run_id: str,
    schema: pa.Schema,
    judged: Judged,
) -> pa.RecordBatch:
    rubric, prices = judge.rubric, judge.evaluator.prices
    rows = batch.to_pylist()
    judged.rows += len(rows)
    for row in rows:
        if row["answered_at"] is None:
            raise StoreError(
                f"the ledger holds no answer to request {row['request_hash']}, attempt {attempt}, of record "
                f"{row['row_id']}; a file of the ledger was removed while the run was using it: run again"
            )
        reading = read_answer(row, rubric)
        judged.valid += reading.valid
        judged.faults.update(_codes(reading))
        tokens_in, tokens_out = row["prompt_tokens"], row["completion_tokens"]
        row.update(
            reading.values,
            **_sureness(judge, row, reading, samples),
            status="valid" if reading.valid else "invalid",
            faults=[fault.code for fault in reading.faults],
            fault_detail="\n".join(" ".join(f.detail.split()) for f in reading.faults) or None,
            raw_response=row["text"],
            mended=reading.mended,
            evaluator=judge.evaluator_name,
            model=judge.evaluator.model,
            prompt_version=str(rubric.version),
            rubric_hash=rubric.hash,
            config_hash=judge.config_hash,
            attempt=attempt,
            reused=row["run_id"] != run_id,
            evaluated_at=row["answered_at"],
            cost_usd=None
            if tokens_in is None or tokens_out is None
            else (tokens_in * prices.prompt + tokens_out * prices.completion) / 1e6,
        )
    return pa.RecordBatch.from_arrays(
        [
            pa.array([row.get(field.name) for row in rows], field.type, from_pandas=False)
            for field in schema
        ],
        schema=schema,
    )


def _sureness(
    judge: Judge,
    row: Mapping[str, Any],
    reading: Reading,
    samples: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """Confidence by field and its mean, in place of what the model says; nothing where it is only said.

    None where the server gives no probabilities, or no further answer is valid: sources are never mixed.
    """
    rubric, source = judge.rubric, judge.evaluator.confidence
    if source == "stated":
        return {}
    found = []
    if not reading.valid:
        pass
    elif source == "logprobs":
        found = by_tokens(row["text"], row.get("logprobs"), reading.values, rubric)
    else:
        again = [samples[name] for name in row["further"] if name in samples]
        found = by_samples([reading.values, *again], rubric)
    return {
        "confidence": sum(each.confidence for each in found) / len(found) if found else None,
        "field_confidence": [asdict(each) for each in found] or None,
    }


def _codes(reading: Reading) -> set[str]:
    """The fault codes of one record, each once."""
    return {fault.code for fault in reading.faults}


def _row(answer: Answer) -> dict[str, Any]:
    names = ("text", "finish_reason", "refusal", "failure", "detail")
    return {name: getattr(answer, name) for name in names}
