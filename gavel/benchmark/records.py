"""The records of the benchmark: those that people have labelled, of every day and task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from gavel.alignment.labels import references
from gavel.errors import RubricError
from gavel.inference.ledger import Ledger, latest, segments
from gavel.inference.rules import Rules
from gavel.judge.backends import judge_of
from gavel.judge.evaluate import Judge, Judged
from gavel.judge.floors import constant_answer, fixed_judge, majority_answer
from gavel.judge.heuristic import REVISION, judge_by_rule
from gavel.judge.opinions import judge_fully
from gavel.judge.prompts import Prompts
from gavel.judge.rubric import Rubric
from gavel.judge.tables import verdict_schema
from gavel.logs.schema import SHARD
from gavel.settings.judging import Evaluator
from gavel.store.files import Store
from gavel.store.tables import fetch, quoted, session, write_batches, write_query
from gavel.suite import Suite

People = Mapping[str, Mapping[str, Any]]
"""What people agreed on: by field, then by row_id."""


def write_labelled(clean: Sequence[Path], labels: Path | None, out: Path) -> int:
    """Write the records of `clean` that have a usable label, as one shard a task; return how many there are.

    A record that stands in several days is that of the last. They are in the order of task and row_id.
    """
    if labels is None or not clean:
        return write_batches(out, SHARD, [])
    query = f"""
        SELECT *, 0::INTEGER AS shard,
               row_number() OVER (PARTITION BY task ORDER BY row_id) - 1 AS shard_row
        FROM (
            SELECT r.* EXCLUDE (filename)
            FROM read_parquet({quoted(*clean)}, filename = true) r
            SEMI JOIN (
                SELECT row_id FROM read_parquet({quoted(labels)}) WHERE status = 'valid'
            ) USING (row_id)
            QUALIFY row_number() OVER (PARTITION BY row_id ORDER BY filename DESC) = 1
        )
        ORDER BY task, row_id
    """
    with session(spill=out.parent / ".spill") as connection:
        return write_query(out, connection, query, SHARD)


def labels_file(store: Store) -> Path | None:
    """The table of people's labels; None where there is none yet."""
    path = store.table("alignment/labels")
    return path if path.exists() else None


def labelled_count(store: Store) -> int:
    """How many records have a usable label."""
    if (path := labels_file(store)) is None:
        return 0
    query = (
        f"SELECT count(DISTINCT row_id) FROM read_parquet({quoted(path)}) WHERE status = 'valid'"
    )
    return int(fetch(query)[0][0])


def people_of(suite: Suite, store: Store, rubric: Rubric) -> People:
    """What people agreed on for each field of the task; a tie is no value."""
    if (path := labels_file(store)) is None:
        return {}
    labels = pq.read_table(path, filters=[("task", "=", rubric.task)])
    found = references(labels, suite.alignment.adjudicators)
    return {
        field: {row_id: r.value for row_id, r in items.items() if r.value is not None}
        for (_, field), items in found.items()
    }


def benchmark_judge(suite: Suite, name: str, rubric: Rubric, people: People) -> Judge:
    """The judge called `name`: an evaluator of the suite, or a floor. The majority is that of `people`."""
    if name in suite.evaluators:
        return judge_of(suite, rubric.task, rubric, name)
    if name == "heuristic":
        prompts = Prompts(rubric, f"released rubric {rubric.task} {rubric.version}")
        evaluator = Evaluator(backend="heuristic", model=REVISION)
        return Judge(rubric, prompts, name, evaluator, Rules(judge_by_rule, REVISION))
    if name == "constant":
        return fixed_judge(name, rubric, constant_answer(rubric))
    values = {field: list(known.values()) for field, known in people.items()}
    return fixed_judge(name, rubric, majority_answer(rubric, values))


def judge_records(
    store: Store,
    judges: Sequence[Judge],
    records: Path,
    out: Path,
    run_id: str,
    attempts: int,
    folder: Path,
) -> list[Judged]:
    """Write to `out` every verdict of one evaluator on `records`: all tasks, every attempt.

    `judges` are that evaluator's, one a task. Its answers are kept in a ledger of its own, so that what it is
    measured by is what it was asked here. `folder` is for tables on the way.

    Raises:
        EvaluatorOutage, EvaluatorRefused: `out` is left as it was, the ledger keeps what came.
        RubricError: tasks have a dimension and a label of the same name.
    """
    schema = benchmark_schema([judge.rubric for judge in judges])
    parts: list[tuple[str, Path]] = []
    results: list[Judged] = []
    for judge in judges:
        task = judge.rubric.task
        shard = folder / f"{task}.parquet"
        with session() as connection:
            query = f"FROM read_parquet({quoted(records)}) WHERE task = '{task}' ORDER BY shard_row"
            if not write_query(shard, connection, query, pq.read_schema(records)):
                continue
        (folder / task).mkdir()
        scope = ledger_scope(judge.evaluator_name, task)
        with Ledger.open(store.ledger(scope), run_id, scope) as ledger:
            tables, judged = judge_fully(judge, shard, ledger, folder / task, attempts)
        parts += [(task, table) for table in tables]
        results += judged
    write_batches(out, schema, _conformed(parts, schema))
    return results


def ledger_scope(evaluator: str, task: str) -> str:
    """The ledger that an evaluator's answers of the benchmark stand in."""
    return f"benchmark/{evaluator}/{task}"


def answers_of(store: Store, evaluator: str, task: str, verdicts: pl.DataFrame) -> pl.DataFrame:
    """Every answer of the runs that `verdicts` are from, once: also what is only compared with others."""
    files = segments(store.ledger(ledger_scope(evaluator, task)))
    with session() as connection:
        found = pl.from_arrow(connection.sql(latest(files)).to_arrow_table())
    assert isinstance(found, pl.DataFrame)
    return found.filter(pl.col("run_id").is_in(verdicts["run_id"].unique().to_list()))


def benchmark_schema(rubrics: Sequence[Rubric]) -> pa.Schema:
    """The verdicts of several tasks in one table: `task`, and the columns of every rubric.

    Raises:
        RubricError: tasks have a dimension and a label of the same name.
    """
    try:
        return pa.unify_schemas(
            [pa.schema([("task", pa.string())]), *(verdict_schema(rubric) for rubric in rubrics)]
        )
    except pa.ArrowTypeError as error:
        raise RubricError(
            f"two tasks have a dimension and a label of one name, so their verdicts cannot stand in one table "
            f"({error}); give one of them another name"
        ) from error


def _conformed(parts: Sequence[tuple[str, Path]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for task, path in parts:
        with pq.ParquetFile(path) as table:
            for batch in table.iter_batches():
                there = set(batch.schema.names)
                columns = [
                    batch.column(field.name)
                    if field.name in there
                    else pa.nulls(batch.num_rows, field.type)
                    for field in schema
                ]
                columns[0] = pa.array([task] * batch.num_rows, pa.string())
                yield pa.RecordBatch.from_arrays(columns, schema=schema)
