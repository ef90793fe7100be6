"""Opinions: what a panel's further members and a larger evaluator say of a shard, after the task's evaluator.

The *first tier* is the task's evaluator, or the panel it belongs to. Where the task escalates, the *second tier*
is the larger evaluator, asked about the records that the rules pick. A record's *standing* is what the first
tier says of it; the second tier's verdict, where valid, replaces it in the scores.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from gavel.inference.ledger import Ledger
from gavel.judge.escalation import escalated
from gavel.judge.evaluate import Judge, Judged, Progress, judge_shard, regenerate
from gavel.judge.panel import aggregated
from gavel.judge.rubric import Rubric
from gavel.judge.tables import opinion_schema
from gavel.judge.worklist import write_invalid
from gavel.logs.schema import SHARD
from gavel.settings.judging import Task
from gavel.store.tables import quoted, session, write_batches, write_query

PANEL = "panel"
"""What stands in `because` where a record is asked about as every record is, by a member of the panel."""

TEXTS = ("prompt", "response", "reference", "source_text", "extra", "retail_info")
"""Columns of a record that rules of escalation cannot test: long, and nothing to compare with."""


@dataclass(frozen=True)
class Others:
    """Who is asked besides the task's evaluator, and by which settings."""

    task: str
    settings: Task
    members: Sequence[Judge]
    larger: Judge | None


@dataclass
class Opinions:
    """What became of asking: one result an attempt of each evaluator, and how many records went to the larger."""

    judged: list[Judged] = field(default_factory=list)
    escalated: int = 0


def judge_fully(
    judge: Judge,
    shard: Path,
    ledger: Ledger,
    folder: Path,
    attempts: int,
    progress: Progress = lambda asked, faults: None,
) -> tuple[list[Path], list[Judged]]:
    """Judge `shard` and ask again for what is invalid, up to `attempts` times.

    Returns the tables, first attempts and later ones, which stand in `folder`, and one result an attempt.

    Raises:
        EvaluatorOutage, EvaluatorRefused: as `judge_shard`.
    """
    verdicts, invalid, again = (
        folder / f"{judge.evaluator_name}.{part}.parquet"
        for part in ("verdicts", "invalid", "regenerated")
    )
    results = [judge_shard(judge, shard, ledger, verdicts, progress)]
    write_invalid(verdicts, invalid)
    results += regenerate(judge, shard, invalid, ledger, again, attempts, progress)
    return [verdicts, again], results


def ask_others(
    others: Others,
    shard: Path,
    chain: Sequence[Path],
    ledger: Ledger,
    out: Path,
    attempts: int,
    progress: Progress = lambda asked, faults: None,
) -> Opinions:
    """Write to `out` every verdict of the other evaluators on the records of `shard`, every attempt kept.

    `chain` are the tables of the task's evaluator: its verdicts and those it was asked for again.

    Raises:
        EvaluatorOutage, EvaluatorRefused: `out` is left as it was, the ledger keeps what came.
        SuiteError: a rule of high_risk does not fit the columns.
    """
    opinions = Opinions()
    rubric = _rubric(others)
    # Before anybody is asked: a mistake in a rule costs nothing then.
    check_escalation(rubric, others.settings)
    parts: list[tuple[Path, Mapping[str, list[str]] | None]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for member in others.members:
            tables, results = judge_fully(member, shard, ledger, folder, attempts, progress)
            opinions.judged += results
            parts += [(table, None) for table in tables]
        if others.larger is not None:
            members = read_verdicts(rubric, [table for table, _ in parts])
            own = read_verdicts(rubric, chain)
            standing = first_tier(rubric, others.settings, own, members)
            reasons = _reasons(others, shard, standing)
            opinions.escalated = len(reasons)
            work = folder / "escalated.parquet"
            _write_chosen(shard, reasons, work)
            tables, results = judge_fully(others.larger, work, ledger, folder, attempts, progress)
            opinions.judged += results
            parts += [(table, reasons) for table in tables]
        schema = opinion_schema(rubric)
        write_batches(out, schema, _with_reasons(parts, schema))
    return opinions


def check_escalation(rubric: Rubric, settings: Task) -> None:
    """Try the rules of escalation on no record at all.

    Raises:
        SuiteError: a rule does not fit the columns of a record or of a verdict by `rubric`.
    """
    if settings.escalation is not None:
        nothing = read_verdicts(rubric, [])
        records = pl.DataFrame(schema=pl.Schema(SHARD)).select(pl.exclude(*TEXTS))
        standing = first_tier(rubric, settings, nothing, nothing)
        escalated(records.join(standing, on="row_id"), settings.escalation, rubric.task)


def _reasons(others: Others, shard: Path, standing: pl.DataFrame) -> dict[str, list[str]]:
    """Why each record of `shard` that goes to the larger evaluator does, by row_id."""
    settings = others.settings.escalation
    assert settings is not None, "there is a larger evaluator"
    records = pl.scan_parquet(shard).select(pl.exclude(*TEXTS)).collect()
    return dict(escalated(records.join(standing, on="row_id"), settings, others.task).iter_rows())


def _write_chosen(shard: Path, chosen: Collection[str], out: Path) -> None:
    """The rows of `shard` whose row_id is among `chosen`, in their order."""
    with session() as connection:
        connection.register("chosen", pa.table({"row_id": pa.array(chosen, pa.string())}))
        write_query(
            out,
            connection,
            f"FROM read_parquet({quoted(shard)}) SEMI JOIN chosen USING (row_id) ORDER BY shard_row",
            pq.read_schema(shard),
        )


def _with_reasons(
    parts: Sequence[tuple[Path, Mapping[str, list[str]] | None]], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The verdicts of every part, each with the reasons why it was asked for."""
    for path, reasons in parts:
        with pq.ParquetFile(path) as verdicts:
            for batch in verdicts.iter_batches():
                because = [
                    [PANEL] if reasons is None else reasons[row_id]
                    for row_id in batch.column("row_id").to_pylist()
                ]
                column = pa.array(because, schema.field("because").type)
                yield pa.RecordBatch.from_arrays([*batch.columns, column], schema=schema)


def first_tier(
    rubric: Rubric, settings: Task, own: pl.DataFrame, others: pl.DataFrame
) -> pl.DataFrame:
    """The standing of each record: its fields, confidence, status, attempts, votes and disagreement.

    `own` are the verdicts of the task's evaluator, every attempt, as `read_verdicts` gives them; of `others`,
    those of the panel's members count. Fields and confidence are null where no verdict is valid.
    """
    attempts = own.group_by("row_id").agg(pl.col("attempt").max().alias("attempts"))
    votes = winners(own)
    if settings.panel is None:
        votes = votes.select(
            "row_id",
            *("confidence", *rubric.columns),
            pl.lit(1, pl.Int32).alias("votes"),
            pl.lit(None, pl.Float64).alias("disagreement"),
        )
    else:
        places = {name: place for place, name in enumerate(settings.panel.members, start=1)}
        members = others.filter(pl.col("evaluator").is_in(list(places)))
        seats = pl.col("evaluator").replace_strict(places, return_dtype=pl.Int64)
        seated = [
            votes.with_columns(pl.lit(0, pl.Int64).alias("place")),
            winners(members).with_columns(seats.alias("place")),
        ]
        votes = aggregated(rubric, pl.concat(seated), settings.panel.aggregate)
    standing = attempts.join(votes, on="row_id", how="left").with_columns(
        pl.col("votes").fill_null(0)
    )
    status = pl.when(pl.col("votes") > 0).then(pl.lit("valid")).otherwise(pl.lit("unresolved"))
    return standing.with_columns(status.alias("status")).sort("row_id")


def read_verdicts(rubric: Rubric, tables: Sequence[Path]) -> pl.DataFrame:
    """Of every verdict of `tables`: whose record, which evaluator and attempt, status and what it says."""
    columns = {
        "row_id": pl.String,
        "evaluator": pl.String,
        "attempt": pl.Int32,
        "status": pl.String,
        "confidence": pl.Float64,
        **{dimension.name: pl.Float64 for dimension in rubric.dimensions},
        **dict.fromkeys(rubric.label_values, pl.String),
    }
    read = [pl.read_parquet(table, columns=list(columns)) for table in tables]
    return pl.concat([pl.DataFrame(schema=columns), *read])


def winners(verdicts: pl.DataFrame) -> pl.DataFrame:
    """The first valid verdict of each record and evaluator."""
    valid = verdicts.filter(pl.col("status") == "valid").sort("row_id", "evaluator", "attempt")
    return valid.unique(["row_id", "evaluator"], keep="first", maintain_order=True)


def _rubric(others: Others) -> Rubric:
    judges: Iterator[Judge | None] = iter([*others.members, others.larger])
    return next(judge.rubric for judge in judges if judge is not None)
