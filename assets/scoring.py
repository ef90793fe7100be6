"""Stage scoring, by day: one score a record, its publication, and the day's quality."""

import datetime as dt
from collections.abc import Sequence
from pathlib import Path

import dagster as dg
import orjson
import pyarrow as pa

from assets.partitions import daily, days_before, opinion_files, shard_files, window_until
from assets.signatures import earlier_signature, publish_manifest, scores_signature
from assets.tables import (
    VALID_ROWS,
    Result,
    check_spec,
    declared_asset,
    equality,
    table_result,
    valid_rows,
    warning,
)
from gavel.benchmark.records import people_of
from gavel.errors import StoreError
from gavel.inference.ledger import compact
from gavel.judge.releases import released_rubric
from gavel.judge.scores import merge_scores
from gavel.judge.tables import VOLATILE, score_check
from gavel.report.quality import Figures, quality, warnings
from gavel.report.tiers import tier_figures
from gavel.report.validity import QUALITY_VALID
from gavel.store.files import Store, replacing
from gavel.store.manifests import Manifest, outdate
from gavel.store.tables import (
    content_hash,
    count_rows,
    fetch,
    quoted,
    row_count,
    write_table,
)
from gavel.store.warehouse import About
from gavel.suite import Suite
from resources import ParquetStore, PublishedScores

WAREHOUSE_POOL = "warehouse"


def scoring_assets(suite: Suite, task: str) -> list[dg.AssetsDefinition]:
    """{task}/scores, published and quality."""
    days = daily(suite)
    others = suite.settings_of(task).others
    scores_key, published_key, quality_key = (
        dg.AssetKey([task, name]) for name in ("scores", "published", "quality")
    )

    @declared_asset(
        scores_key,
        "Exactly one row a record: the winning verdict, the aggregate score, the status.",
        group=task,
        partitions=days,
        kinds={"duckdb", "parquet"},
        deps=[
            dg.AssetKey([task, name])
            for name in ("verdicts", "regenerated", *(["opinions"] if others else []))
        ],
        checks=[
            check_spec(
                "clean_is_sum_of_shards",
                scores_key,
                f"Nothing is lost: the day's clean {task} records = sum of its shards",
            ),
            check_spec(
                "one_score_a_record",
                scores_key,
                "Nothing is lost or doubled: scores = clean, by row_id",
            ),
            check_spec(
                VALID_ROWS,
                scores_key,
                "Bounds and label sets hold; only valid records have a score",
            ),
        ],
    )
    def scores(context: dg.AssetExecutionContext, store: ParquetStore) -> Result:
        day, files = context.partition_key, store.files
        rubric = released_rubric(files, task)
        signature = scores_signature(suite, files, task, day)
        shards = shard_files(suite, files, f"{task}/shards", day)
        path = files.table(f"{task}/scores", day)
        _refuse_partial(files.existing("logs/clean", day), task, shards)
        outdate(publish_manifest(files, day), {f"rows {task}": signature["rows"]})
        merged = merge_scores(
            suite,
            rubric,
            shards,
            shard_files(suite, files, f"{task}/verdicts", day),
            shard_files(suite, files, f"{task}/regenerated", day),
            path,
            opinion_files(suite, files, task, day),
        )
        clean = _records(files.existing("logs/clean", day), task, path)
        sharded = sum(map(row_count, shards))
        return table_result(
            scores_key.path,
            path,
            volatile=VOLATILE,
            rubric=rubric,
            metadata={
                "records": merged.records,
                "valid_at_first": merged.valid,
                "repaired": merged.repaired,
                "unresolved": merged.unresolved,
            },
            checks=[
                equality(
                    "clean_is_sum_of_shards",
                    {"clean": clean["clean"], "sum of shards": sharded},
                    clean["clean"] == sharded,
                ),
                equality("one_score_a_record", clean, _one_to_one(clean)),
                valid_rows(path, score_check(rubric), unique="row_id"),
            ],
            manifest=Manifest(signature, context.run.run_id),
        )

    @declared_asset(
        published_key,
        f"The day's rows of {task}_scores in the warehouse, replaced whole.",
        group=task,
        partitions=days,
        kinds={"duckdb" if suite.dataset is None else "bigquery"},
        deps=[scores_key],
        pool=WAREHOUSE_POOL,
        checks=[
            check_spec(
                "warehouse_holds_the_scores",
                published_key,
                "The warehouse holds exactly the day's valid scores",
            )
        ],
    )
    def published(
        context: dg.AssetExecutionContext, store: ParquetStore, warehouse: PublishedScores
    ) -> Result:
        day, files = context.partition_key, store.files
        path = files.existing(f"{task}/scores", day)
        rubric = released_rubric(files, task)
        required = [d.name for d in rubric.dimensions if not d.optional] + list(rubric.label_values)
        about = About(context.run.run_id, rubric.meanings, required)
        rows = warehouse.database.publish(task, day, path, about)
        valid = count_rows([path], "status = 'valid'")
        _note_publication(files, task, day, context.run.run_id, rows)
        compact(files.ledger(f"{task}/{day}"))
        return dg.MaterializeResult(
            data_version=dg.DataVersion(content_hash(path, VOLATILE)),
            metadata={
                "dagster/row_count": rows,
                "dagster/table_name": f"{task}_scores",
                "warehouse": str(warehouse.database),
            },
            check_results=[
                equality(
                    "warehouse_holds_the_scores",
                    {"valid scores": valid, "rows in the warehouse": rows},
                    valid == rows,
                )
            ],
        )

    @declared_asset(
        quality_key,
        "The day's aggregates, drift against the days before, and operational figures.",
        group=task,
        partitions=days,
        kinds={"duckdb", "parquet"},
        deps=[
            dg.AssetDep(scores_key, partition_mapping=window_until(suite.quality.window_days)),
            # What escalating bought is told by people's labels.
            *([dg.AssetDep(dg.AssetKey(["alignment", "labels"]))] if others else []),
        ],
        checks=[
            check_spec(VALID_ROWS, quality_key, "Every figure is a finite number or null"),
            check_spec(
                "drift", quality_key, "Nothing moved against the days before", blocking=False
            ),
        ],
    )
    def daily_quality(context: dg.AssetExecutionContext, store: ParquetStore) -> Result:
        day, files = context.partition_key, store.files
        signature = earlier_signature(suite, files, task, day)
        table = _quality(suite, files, task, day)
        path = files.table(f"{task}/quality", day)
        write_table(path, table)
        figures = Figures(table)
        plotted = {
            **{
                f"mean_{d.name}": figures.value("mean", d.name)
                for d in released_rubric(files, task).dimensions
            },
            "mean_score": figures.value("mean", "score"),
            **{
                name: figures.value(name)
                for name in (
                    "invalid_rate",
                    "unresolved_rate",
                    "recovery_rate",
                    "retry_rate",
                    "prompt_tokens",
                    "completion_tokens",
                    "cost_usd",
                    "answers_per_second",
                    "escalated_rate",
                    "disagreement",
                )
            },
            **{f"latency_{k}_ms": v for k, v in figures.keyed("latency_ms").items()},
        }
        return table_result(
            quality_key.path,
            path,
            metadata=plotted,
            checks=[
                valid_rows(path, QUALITY_VALID),
                warning("drift", list(warnings(table, suite.quality).values()), {}),
            ],
            manifest=Manifest(signature, context.run.run_id),
        )

    return [scores, published, daily_quality]


def _quality(suite: Suite, files: Store, task: str, day: str) -> pa.Table:
    rubric = released_rubric(files, task)
    before = days_before(day, suite.quality.window_days)
    trailing = {d: path for d in before if (path := files.table(f"{task}/scores", d)).exists()}
    scores = files.existing(f"{task}/scores", day)
    verdicts, regenerated = (
        shard_files(suite, files, f"{task}/{name}", day) for name in ("verdicts", "regenerated")
    )
    opinions = opinion_files(suite, files, task, day)
    settings, chain = suite.settings_of(task), [*verdicts, *regenerated]
    return quality(
        task,
        day,
        [(d.name, d.min, d.max) for d in rubric.dimensions],
        list(rubric.label_values),
        scores,
        verdicts,
        regenerated,
        trailing,
        suite.quality,
        opinions,
        tier_figures(rubric, settings, scores, chain, opinions, people_of(suite, files, rubric))
        if opinions
        else (),
    )


def _refuse_partial(clean: Path, task: str, shards: Sequence[Path]) -> None:
    """Keep the scores of a whole day from being replaced by those of a part of it. Raises StoreError.

    The check of the same equality comes after the table is written, which is too late for what it held.
    """
    records, dealt = count_rows([clean], f"task = '{task}'"), sum(map(row_count, shards))
    if records != dealt:
        raise StoreError(
            f"{clean} holds {records:,} records of {task}, its {len(shards)} shards hold {dealt:,}: they were "
            "dealt from other logs or to another number of shards; judge every shard of the day again, "
            "the scores stay as they were"
        )


def _records(clean: Path, task: str, scores: Path) -> dict[str, int]:
    """How the records of the day and the rows of its scores cover one another."""
    counts = fetch(
        f"""
        WITH c AS (SELECT row_id FROM read_parquet({quoted(clean)}) WHERE task = ?),
             s AS (SELECT row_id FROM read_parquet({quoted(scores)}))
        SELECT (SELECT count(*) FROM c), (SELECT count(*) FROM s),
               (SELECT count(*) FROM c ANTI JOIN s USING (row_id)),
               (SELECT count(*) FROM s ANTI JOIN c USING (row_id))
        """,
        [task],
    )[0]
    names = ("clean", "scores", "records without a score", "scores without a record")
    return dict(zip(names, counts, strict=True))


def _one_to_one(sides: dict[str, int]) -> bool:
    clean, scores, *missing = sides.values()
    return clean == scores and not any(missing)


def _note_publication(files: Store, task: str, day: str, run_id: str, rows: int) -> None:
    """Leave for the audit who published the day, and when."""
    note = {"time": dt.datetime.now(dt.UTC), "task": task, "run_id": run_id, "rows": rows}
    with replacing(files.document(f"{task}/published/{day}")) as temporary:
        temporary.write_bytes(orjson.dumps(note))
