"""Stage judging, by day and shard: shards, verdicts, the invalid ones, and those asked again."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl

from assets.logs import CLEAN
from assets.partitions import day_and_shard, sharded
from assets.signatures import (
    judge_manifest,
    made_from,
    opinion_signature,
    shard_signature,
    verdict_signature,
)
from assets.tables import (
    VALID_ROWS,
    Result,
    check_spec,
    declared_asset,
    equality,
    requests_of,
    table_result,
    valid_rows,
    warning,
)
from gavel.inference.ask import Asked
from gavel.inference.ledger import Ledger
from gavel.judge.evaluate import Judged, judge_shard, regenerate
from gavel.judge.kept import kept_verdicts
from gavel.judge.opinions import ask_others
from gavel.judge.releases import released_rubric
from gavel.judge.tables import VOLATILE, verdict_check
from gavel.judge.worklist import outcome, unresolved, write_invalid
from gavel.logs.shards import shard_rows, write_shard
from gavel.logs.validity import SHARD_VALID
from gavel.store.files import Store
from gavel.store.manifests import UNFINISHED, Manifest, outdate, read_manifest
from gavel.store.tables import content_hash, row_count
from gavel.suite import Suite
from resources import Evaluators, ParquetStore

EVALUATOR_POOL = "evaluator"
ROUND_TAG = "gavel/round"
"""The tag of a run that asks again for unresolved records: which further round it is."""

_PROGRESS_SECONDS = 5.0


def judging_assets(suite: Suite, task: str) -> list[dg.AssetsDefinition]:
    """{task}/shards, verdicts, invalid and regenerated; and opinions, where others are asked too."""
    partitions = sharded(suite)
    rubric, shards_key, verdicts_key, invalid_key, regenerated_key = (
        dg.AssetKey([task, name])
        for name in ("rubric", "shards", "verdicts", "invalid", "regenerated")
    )

    @declared_asset(
        shards_key,
        f"1/{suite.shards} of the day's {task} records, round robin.",
        group=task,
        kinds={"parquet"},
        partitions=partitions,
        deps=[CLEAN],
        checks=[
            check_spec(
                "dealt_round_robin", shards_key, "The shard holds its share of the day's records"
            ),
            check_spec(VALID_ROWS, shards_key, "Every record fits its schema"),
        ],
    )
    def shards(context: dg.AssetExecutionContext, store: ParquetStore) -> Result:
        day, shard = day_and_shard(context)
        files = store.files
        path, clean = files.table(f"{task}/shards", day, shard), files.existing("logs/clean", day)
        signature = shard_signature(suite, task, read_manifest(clean.with_suffix(".json")))
        outdate(judge_manifest(suite, files, task, day, shard), signature)
        rows = write_shard(clean, task, suite.shards, int(shard), path)
        records = (
            pl.scan_parquet(clean).filter(pl.col("task") == task).select(pl.len()).collect().item()
        )
        share = len(shard_rows(records, suite.shards, int(shard)))
        sides = {"rows of the shard": rows, "its share": share, "records of the day": records}
        return table_result(
            shards_key.path,
            path,
            checks=[
                equality("dealt_round_robin", sides, rows == share),
                valid_rows(path, SHARD_VALID, unique="row_id"),
            ],
            manifest=Manifest(signature, context.run.run_id),
        )

    @declared_asset(
        verdicts_key,
        "One verdict a record: valid, or invalid with its faults.",
        group=task,
        kinds={"parquet", "openai"},
        partitions=partitions,
        deps=[shards_key, rubric],
        pool=EVALUATOR_POOL,
        checks=[
            check_spec(VALID_ROWS, verdicts_key, "Bounds, label sets and known faults hold"),
            check_spec("invalid_rate", verdicts_key, "Few verdicts are invalid", blocking=False),
        ],
    )
    def verdicts(
        context: dg.AssetExecutionContext, store: ParquetStore, evaluators: Evaluators
    ) -> Result:
        day, shard = day_and_shard(context)
        files = store.files
        judge = evaluators.judge(task, released_rubric(files, task))
        records = files.existing(f"{task}/shards", day, shard)
        signature = made_from(records) | verdict_signature(judge)
        path = files.table(f"{task}/verdicts", day, shard)
        started = time.monotonic()
        judged = kept_verdicts(
            path,
            signature,
            files.ledger(f"{task}/{day}"),
            files.table(f"{task}/regenerated", day, shard),
        )
        if judged is None:
            outdate(judge_manifest(suite, files, task, day, shard), signature)
            with _ledger(context, files, task, day, shard) as ledger:
                progress = _progress(context, row_count(records))
                judged = judge_shard(judge, records, ledger, path, progress)
        else:
            context.log.info(
                "made from the same rows, rubric and evaluator before: kept as they are"
            )
        seconds = time.monotonic() - started
        rate = judged.invalid / judged.rows if judged.rows else 0.0
        bound = suite.quality.max_invalid_rate
        sentences = (
            [
                f"{rate:.1%} of {judged.rows:,} verdicts are invalid (at most {bound:.1%} expected): "
                f"{dict(judged.faults.most_common())}"
            ]
            if rate > bound
            else []
        )
        return table_result(
            verdicts_key.path,
            path,
            volatile=VOLATILE,
            rubric=judge.rubric,
            metadata={
                "evaluator": judge.evaluator_name,
                "model": judge.evaluator.model,
                "rubric": f"{task} {judge.rubric.version} ({judge.rubric.hash})",
                "invalid": judged.invalid,
                "invalid_rate": rate,
                **_figures([judged], seconds, path),
            },
            checks=[
                valid_rows(path, verdict_check(judge.rubric), unique="row_id"),
                warning("invalid_rate", sentences, {"invalid_rate": rate}),
            ],
            manifest=Manifest(signature, context.run.run_id),
        )

    @declared_asset(
        invalid_key,
        "Only the invalid verdicts, with their reasons: the work list.",
        group=task,
        kinds={"parquet"},
        partitions=partitions,
        deps=[verdicts_key],
        checks=[
            check_spec(
                "shard_is_valid_plus_invalid",
                invalid_key,
                "Nothing is lost: shard = valid + invalid",
            ),
            check_spec(VALID_ROWS, invalid_key, "Bounds, label sets and known faults hold"),
        ],
    )
    def invalid(context: dg.AssetExecutionContext, store: ParquetStore) -> Result:
        day, shard = day_and_shard(context)
        files = store.files
        rubric_now = released_rubric(files, task)
        path = files.table(f"{task}/invalid", day, shard)
        counts = write_invalid(files.existing(f"{task}/verdicts", day, shard), path)
        records = row_count(files.existing(f"{task}/shards", day, shard))
        sides = {"shard": records, "valid": counts.valid, "invalid": counts.invalid}
        holds = records == counts.valid + counts.invalid
        return table_result(
            invalid_key.path,
            path,
            volatile=VOLATILE,
            rubric=rubric_now,
            metadata={f"fault_{code}": count for code, count in counts.by_fault.items()},
            checks=[
                equality("shard_is_valid_plus_invalid", sides, holds),
                valid_rows(path, verdict_check(rubric_now)),
            ],
        )

    @declared_asset(
        regenerated_key,
        "New verdicts for the work list only, each attempt kept.",
        group=task,
        kinds={"parquet", "openai"},
        partitions=partitions,
        deps=[invalid_key, shards_key, rubric],
        pool=EVALUATOR_POOL,
        checks=[
            check_spec(
                "invalid_is_repaired_plus_unresolved",
                regenerated_key,
                "Nothing is lost: invalid = repaired + unresolved",
            ),
            check_spec(VALID_ROWS, regenerated_key, "Bounds, label sets and known faults hold"),
        ],
    )
    def regenerated(
        context: dg.AssetExecutionContext, store: ParquetStore, evaluators: Evaluators
    ) -> Result:
        day, shard = day_and_shard(context)
        files = store.files
        judge = evaluators.judge(task, released_rubric(files, task))
        work = files.existing(f"{task}/invalid", day, shard)
        records = files.existing(f"{task}/shards", day, shard)
        path = files.table(f"{task}/regenerated", day, shard)
        # The rubric may have been released anew since the verdicts were made: theirs is what counts.
        signature = made_from(files.existing(f"{task}/verdicts", day, shard))
        signature["attempts"] = str(suite.regeneration_attempts)
        rounds = _rounds(context, path, signature)
        outdate(judge_manifest(suite, files, task, day, shard), signature)
        with _ledger(context, files, task, day, shard) as ledger:
            started = time.monotonic()
            progress = _progress(context, row_count(work))
            attempts = regenerate(
                judge,
                records,
                work,
                ledger,
                path,
                suite.regeneration_attempts * (1 + rounds),
                progress,
            )
            seconds = time.monotonic() - started
        invalid_rows = row_count(work)
        result = outcome(work, path)
        sides = {
            "invalid": invalid_rows,
            "repaired": result.repaired,
            "unresolved": result.unresolved,
        }
        holds = invalid_rows == result.repaired + result.unresolved
        return table_result(
            regenerated_key.path,
            path,
            volatile=VOLATILE,
            rubric=judge.rubric,
            metadata={
                "repaired": result.repaired,
                "unresolved": result.unresolved,
                "recovery_rate": result.repaired / invalid_rows if invalid_rows else None,
                **_figures(attempts, seconds, path),
            },
            checks=[
                equality("invalid_is_repaired_plus_unresolved", sides, holds),
                valid_rows(path, verdict_check(judge.rubric)),
            ],
            manifest=Manifest(
                signature,
                context.run.run_id,
                figures={
                    "verdicts": content_hash(
                        files.existing(f"{task}/verdicts", day, shard), VOLATILE
                    ),
                    "unresolved": result.unresolved,
                    "rounds": rounds,
                },
            ),
        )

    made = [shards, verdicts, invalid, regenerated]
    return [*made, _opinions(suite, task)] if suite.settings_of(task).others else made


def _opinions(suite: Suite, task: str) -> dg.AssetsDefinition:
    """{task}/opinions, of a task that has a panel or escalates."""
    key = dg.AssetKey([task, "opinions"])

    @declared_asset(
        key,
        "What the panel's further members, and the larger evaluator, say besides the task's own.",
        group=task,
        kinds={"parquet", "openai"},
        partitions=sharded(suite),
        deps=[
            dg.AssetKey([task, name]) for name in ("verdicts", "regenerated", "shards", "rubric")
        ],
        pool=EVALUATOR_POOL,
        checks=[check_spec(VALID_ROWS, key, "Bounds, label sets and known faults hold")],
    )
    def opinions(
        context: dg.AssetExecutionContext, store: ParquetStore, evaluators: Evaluators
    ) -> Result:
        day, shard = day_and_shard(context)
        files = store.files
        rubric = released_rubric(files, task)
        records = files.existing(f"{task}/shards", day, shard)
        chain = [files.existing(f"{task}/{n}", day, shard) for n in ("verdicts", "regenerated")]
        before = read_manifest(chain[1].with_suffix(".json"))
        signature = made_from(chain[1]) | opinion_signature(suite, task)
        path = files.table(f"{task}/opinions", day, shard)
        rounds = 0 if before is None else int(before.figures.get("rounds", 0))
        with _ledger(context, files, task, day, shard) as ledger:
            started = time.monotonic()
            asked = ask_others(
                evaluators.others(task, rubric),
                records,
                chain,
                ledger,
                path,
                suite.regeneration_attempts * (1 + rounds),
                _progress(context, row_count(records)),
            )
            seconds = time.monotonic() - started
        return table_result(
            key.path,
            path,
            volatile=VOLATILE,
            rubric=rubric,
            metadata={
                "escalated": asked.escalated,
                "invalid": sum(judged.invalid for judged in asked.judged),
                **_figures(asked.judged, seconds, path),
            },
            checks=[valid_rows(path, verdict_check(rubric))],
            manifest=Manifest(
                signature,
                context.run.run_id,
                figures={
                    "verdicts": [content_hash(table, VOLATILE) for table in chain],
                    "unresolved": unresolved([*chain, path]),
                    "rounds": rounds,
                },
            ),
        )

    return opinions


def _rounds(context: dg.AssetExecutionContext, path: Path, signature: dict[str, str]) -> int:
    """How many further rounds of regeneration the shard has had, with the one this run may be tagged as.

    It is kept, so that making the same partition again later allows the same attempts.
    """
    asked = int(context.run.tags.get(ROUND_TAG, 0))
    before = read_manifest(path.with_suffix(".json"))
    if before is None or {**before.signature, UNFINISHED: ""} != {**signature, UNFINISHED: ""}:
        return asked
    return max(asked, int(before.figures.get("rounds", 0)))


@contextmanager
def _ledger(
    context: dg.AssetExecutionContext, files: Store, task: str, day: str, shard: str
) -> Iterator[Ledger]:
    worker = f"{task}/{day}/{shard}"
    with Ledger.open(files.ledger(f"{task}/{day}"), context.run.run_id, worker) as ledger:
        yield ledger


def _progress(
    context: dg.AssetExecutionContext, total: int
) -> Callable[[Asked, Counter[str]], None]:
    """Log records done, rate, time left and faults by reason, every few seconds."""
    started = last = time.monotonic()

    def report(asked: Asked, faults: Counter[str]) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < _PROGRESS_SECONDS:
            return
        last = now
        done = asked.answered + asked.saved
        rate = asked.answered / (now - started)
        left = (total - done) / rate if rate else float("inf")
        context.log.info(
            f"{done:,} of {total:,} records, {rate:,.0f} answers/s, about {left:,.0f} s left; "
            f"faults: {dict(faults.most_common()) or 'none'}; retries: {asked.retries:,}"
        )

    return report


def _figures(attempts: Sequence[Judged], seconds: float, path: Path) -> dict[str, Any]:
    """The operational figures of a partition, from what was asked and from the table it gave."""
    answers = (
        pl.scan_parquet(path)
        .filter(~pl.col("reused"))
        .unique(["request_hash", "attempt"])
        .select(
            pl.col("latency_ms").quantile(0.5).alias("latency_p50_ms"),
            pl.col("latency_ms").quantile(0.95).alias("latency_p95_ms"),
            pl.col("latency_ms").quantile(0.99).alias("latency_p99_ms"),
            pl.col("prompt_tokens").sum(),
            pl.col("completion_tokens").sum(),
            pl.col("cost_usd").sum(),
        )
        .collect()
        .row(0, named=True)
    )
    rows = sum(judged.rows for judged in attempts)
    return {
        **requests_of(attempts),
        "retries": sum(judged.asked.retries for judged in attempts),
        "records_per_second": rows / seconds if seconds and rows else None,
        **answers,
    }
