"""Evaluators side by side: one partition an evaluator, and the table and paired tests over all of them."""

import hashlib
import tempfile
import time
from pathlib import Path
from typing import Any

import dagster as dg
import orjson
import polars as pl
import pyarrow as pa

from assets.judging import EVALUATOR_POOL
from assets.tables import (
    VALID_ROWS,
    Result,
    check_spec,
    declared_asset,
    declared_spec,
    requests_of,
    table_result,
    told_plainly,
    valid_rows,
    warning,
)
from gavel.agreement.bootstrap import Resampling
from gavel.alignment.labels import missing_labels
from gavel.benchmark.records import (
    answers_of,
    benchmark_judge,
    judge_records,
    labelled_count,
    labels_file,
    people_of,
    write_labelled,
)
from gavel.benchmark.table import (
    COMPARISONS,
    TABLE,
    TABLE_VALID,
    Contender,
    Labelled,
    comparison_rows,
    contenders,
    table_rows,
)
from gavel.judge.releases import release_state, released_rubric
from gavel.judge.rubric import Rubric
from gavel.judge.tables import VOLATILE
from gavel.report.benchmark import render_benchmark
from gavel.store.files import Store, alone, write_text
from gavel.store.tables import content_hash, row_count, write_table
from gavel.suite import Suite
from resources import ParquetStore

GROUP = "benchmark"
RECORDS, VERDICTS, TABLE_KEY, COMPARISONS_KEY = (
    dg.AssetKey([GROUP, name]) for name in ("records", "verdicts", "table", "comparisons")
)
BENCHMARK, TABULATE = "benchmark_evaluator", "tabulate_benchmark"


def contested(suite: Suite) -> dg.StaticPartitionsDefinition:
    """One partition an evaluator: the suite's, and the floors."""
    return dg.StaticPartitionsDefinition(suite.benchmarked())


def benchmark_assets(suite: Suite) -> list[dg.AssetsDefinition]:
    """benchmark/records, verdicts by evaluator, table and comparisons."""
    return [_records(suite), _verdicts(suite), _table(suite)]


def benchmark_jobs() -> list[Any]:
    """The job that benchmarks one evaluator and makes the table anew, and the one that only makes the table."""
    return [
        dg.define_asset_job(
            TABULATE,
            selection=[TABLE_KEY, COMPARISONS_KEY],
            description="Make the table and the paired tests of the evaluators benchmarked so far.",
        ),
        dg.define_asset_job(
            BENCHMARK,
            selection=[RECORDS, VERDICTS, TABLE_KEY, COMPARISONS_KEY],
            description="Judge the labelled records by one evaluator, and make the table anew.",
        ),
    ]


def _records(suite: Suite) -> dg.AssetsDefinition:
    @declared_asset(
        RECORDS,
        "The records that people have labelled, of every day and task: what each evaluator judges.",
        group=GROUP,
        kinds={"duckdb", "parquet"},
        deps=[dg.AssetKey(["logs", "clean"]), dg.AssetKey(["alignment", "labels"])],
        checks=[check_spec("labels", RECORDS, "People have labelled records", blocking=False)],
    )
    def records(context: dg.AssetExecutionContext, store: ParquetStore) -> Result:
        files = store.files
        path = files.table("benchmark/records")
        rows = write_labelled(files.tables("logs/clean"), labels_file(files), path)
        labelled = labelled_count(files)
        told = [] if labelled else [missing_labels(suite)]
        if rows < labelled:
            told.append(
                f"{labelled - rows:,} of {labelled:,} labelled records are in no day's logs/clean any more, so no "
                "evaluator can judge them; ingest their days again"
            )
        return table_result(
            RECORDS.path,
            path,
            checks=[warning("labels", told, {"records": rows})],
        )

    return records


def _verdicts(suite: Suite) -> dg.AssetsDefinition:
    @declared_asset(
        VERDICTS,
        "One evaluator's verdicts on the labelled records, every attempt: the same prompts, schema and rules.",
        group=GROUP,
        kinds={"parquet", "openai"},
        partitions=contested(suite),
        deps=[RECORDS, *(dg.AssetKey([task, "rubric"]) for task in suite.task_names())],
        pool=EVALUATOR_POOL,
        checks=[
            check_spec(
                "every_record_is_judged",
                VERDICTS,
                "Nothing is lost: every labelled record has a verdict",
            )
        ],
    )
    def verdicts(context: dg.AssetExecutionContext, store: ParquetStore) -> Result:
        name, files = context.partition_key, store.files
        records = files.existing("benchmark/records")
        path = files.table("benchmark/verdicts", name)
        rubrics = _rubrics(suite, files)
        judges = [
            benchmark_judge(suite, name, rubric, people_of(suite, files, rubric))
            for rubric in rubrics
        ]
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            judged = judge_records(
                files,
                judges,
                records,
                path,
                context.run.run_id,
                suite.regeneration_attempts,
                Path(folder),
            )
        first = pl.read_parquet(path, columns=["row_id", "attempt"]).filter(pl.col("attempt") == 1)
        return table_result(
            VERDICTS.path,
            path,
            volatile=VOLATILE,
            metadata={
                **requests_of(judged),
                "seconds": time.monotonic() - started,
            },
            checks=[
                dg.AssetCheckResult(
                    check_name="every_record_is_judged",
                    passed=first["row_id"].n_unique() == first.height == row_count(records),
                    description=f"labelled records: {row_count(records):,}; judged: {first.height:,}",
                )
            ],
        )

    return verdicts


def _table(suite: Suite) -> dg.AssetsDefinition:
    deps = [VERDICTS, dg.AssetKey(["alignment", "labels"])]

    @dg.multi_asset(
        name="benchmark_table",
        specs=[
            declared_spec(
                TABLE_KEY,
                "Evaluators x figures with intervals and signatures; and the page with the picture.",
                group=GROUP,
                kinds={"html", "parquet"},
                deps=deps,
            ),
            declared_spec(
                COMPARISONS_KEY,
                "Paired tests of every two evaluators.",
                group=GROUP,
                kinds={"parquet"},
                deps=deps,
            ),
        ],
        check_specs=[check_spec(VALID_ROWS, TABLE_KEY, "Every row fits its schema")],
    )
    @told_plainly
    def table(context: dg.AssetExecutionContext, store: ParquetStore) -> tuple[Result, Result]:
        files = store.files
        # Runs of several evaluators end at once; each must read what the one before it has written.
        with alone(files.root / "benchmark" / ".table.lock"):
            rows: list[dict[str, Any]] = []
            tests: list[dict[str, Any]] = []
            for rubric in _rubrics(suite, files):
                labelled = _labelled(suite, files, rubric)
                found = _contenders(suite, files, labelled)
                rows += table_rows(labelled, found)
                tests += comparison_rows(labelled, found, Resampling.of(suite.alignment))
            made = pa.Table.from_pylist(rows, schema=TABLE)
            compared = pa.Table.from_pylist(tests, schema=COMPARISONS)
            path, tests_path = (
                files.table(f"benchmark/{name}") for name in ("table", "comparisons")
            )
            write_table(path, made)
            write_table(tests_path, compared)
            page = files.root / "benchmark" / "table.html"
            labelled_records = row_count(files.existing("benchmark/records"))
            missing = "" if labelled_records else missing_labels(suite)
            write_text(page, render_benchmark(suite.name, made, compared, missing))
        return (
            table_result(
                TABLE_KEY.path,
                path,
                metadata={
                    "page": dg.MetadataValue.url(page.as_uri()),
                    "standings": dg.MetadataValue.md(_standings(rows)),
                    **{
                        f"quality {row['task']} {row['evaluator']}": row["value"]
                        for row in rows
                        if row["figure"] == "quality"
                    },
                },
                checks=[valid_rows(path, TABLE_VALID)],
            ),
            table_result(COMPARISONS_KEY.path, tests_path),
        )

    return table


def _rubrics(suite: Suite, files: Store) -> list[Rubric]:
    """The released rubric of every task that has one."""
    return [
        released_rubric(files, task)
        for task in suite.task_names()
        if release_state(files, task) is not None
    ]


def _labelled(suite: Suite, files: Store, rubric: Rubric) -> Labelled:
    path = files.existing("benchmark/records")
    records = pl.read_parquet(path).filter(pl.col("task") == rubric.task)
    people = people_of(suite, files, rubric)
    agreed = hashlib.sha256(orjson.dumps(people, option=orjson.OPT_SORT_KEYS)).hexdigest()
    return Labelled(rubric, records, people, f"{content_hash(path)[:12]}.{agreed[:12]}")


def _contenders(suite: Suite, files: Store, labelled: Labelled) -> list[Contender]:
    """The evaluators that have judged the records as they are now, in the order of the suite."""
    task = labelled.rubric.task
    judged, answers = {}, {}
    for name in suite.benchmarked():
        path = files.table("benchmark/verdicts", name)
        if path.exists():
            verdicts = pl.read_parquet(path).filter(pl.col("task") == task)
            if set(verdicts["row_id"]) == set(labelled.records["row_id"]):
                judged[name] = verdicts
                answers[name] = answers_of(files, name, task, verdicts)
    return contenders(suite, labelled, judged, answers, Resampling.of(suite.alignment))


def _standings(rows: list[dict[str, Any]]) -> str:
    """The main figures as Markdown, one row a task and evaluator."""
    names = ("quality", "records_per_second", "invalid_rate", "cost_usd_per_1000", "pareto")
    found = {
        (row["task"], row["evaluator"], row["figure"]): row["value"]
        for row in rows
        if row["key"] is None and row["field"] is None
    }
    lines = [f"| task | evaluator | {' | '.join(names)} |", "|---" * (len(names) + 2) + "|"]
    for task, evaluator in dict.fromkeys((row["task"], row["evaluator"]) for row in rows):
        values = [found.get((task, evaluator, name)) for name in names]
        shown = " | ".join("" if value is None else f"{value:.4g}" for value in values)
        lines.append(f"| {task} | {evaluator} | {shown} |")
    return "\n".join(lines)
