"""Two systems' answers to the same prompts, compared by evaluators in both orders, and the ranking that gives."""

import tempfile
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl

from assets.benchmark import GROUP
from assets.judging import EVALUATOR_POOL
from assets.rubric import rubric_asset
from assets.tables import (
    VALID_ROWS,
    Result,
    check_spec,
    declared_asset,
    requests_of,
    table_result,
    valid_rows,
)
from gavel.agreement.bootstrap import Resampling
from gavel.benchmark.pairs import read_pairs
from gavel.benchmark.ranking import RANKING_VALID, ranking
from gavel.benchmark.records import benchmark_judge, judge_records
from gavel.judge.releases import released_rubric
from gavel.judge.tables import VOLATILE, verdict_check
from gavel.report.ranking import render_ranking
from gavel.settings.trust import PAIRWISE
from gavel.store.files import alone, write_text
from gavel.store.tables import content_hash, write_table
from gavel.suite import Suite
from resources import ParquetStore

PAIRS, PREFERENCES, RANKED = (
    dg.AssetKey([GROUP, name]) for name in ("pairs", "preferences", "ranking")
)
COMPARE = "compare_pairs"


def pairwise_assets(suite: Suite) -> list[dg.AssetsDefinition]:
    """benchmark/pairs, preferences by evaluator, and ranking; none where the suite names no pairs."""
    if (file := suite.benchmark.pairs) is None:
        return []
    rubric = rubric_asset(PAIRWISE, f"{GROUP}/{PAIRWISE}", GROUP)
    return [rubric, _pairs(suite.path(file)), _preferences(suite), _ranking(suite)]


def pairwise_jobs(suite: Suite) -> list[Any]:
    """The job that has one evaluator compare the pairs, and ranks the systems anew."""
    if suite.benchmark.pairs is None:
        return []
    return [
        dg.define_asset_job(
            COMPARE,
            selection=[dg.AssetKey([PAIRWISE, "rubric"]), PAIRS, PREFERENCES, RANKED],
            description="Have one evaluator compare every pair in both orders, and rank the systems anew.",
        )
    ]


def comparers(suite: Suite) -> list[str]:
    """Those that can prefer an answer: a floor that always says the same cannot."""
    return [name for name in suite.benchmarked() if name not in ("majority", "constant")]


def _pairs(file: Path) -> dg.AssetsDefinition:
    @declared_asset(
        PAIRS,
        "One row a question: a prompt and two systems' answers; each pair in both orders.",
        group=GROUP,
        kinds={"parquet"},
    )
    def pairs(context: dg.AssetExecutionContext, store: ParquetStore) -> Result:
        path = store.files.table("benchmark/pairs")
        write_table(path, read_pairs(file))
        return table_result(PAIRS.path, path)

    return pairs


def _preferences(suite: Suite) -> dg.AssetsDefinition:
    @declared_asset(
        PREFERENCES,
        "One evaluator's verdicts on the pairs, every attempt: which answer is better, in each order.",
        group=GROUP,
        kinds={"parquet", "openai"},
        partitions=dg.StaticPartitionsDefinition(comparers(suite)),
        deps=[PAIRS, dg.AssetKey([PAIRWISE, "rubric"])],
        pool=EVALUATOR_POOL,
        checks=[check_spec(VALID_ROWS, PREFERENCES, "Bounds, label sets and known faults hold")],
    )
    def preferences(context: dg.AssetExecutionContext, store: ParquetStore) -> Result:
        name, files = context.partition_key, store.files
        rubric = released_rubric(files, PAIRWISE)
        path = files.table("benchmark/preferences", name)
        with tempfile.TemporaryDirectory() as folder:
            judged = judge_records(
                files,
                [benchmark_judge(suite, name, rubric, {})],
                files.existing("benchmark/pairs"),
                path,
                context.run.run_id,
                suite.regeneration_attempts,
                Path(folder),
            )
        return table_result(
            PREFERENCES.path,
            path,
            volatile=VOLATILE,
            rubric=rubric,
            metadata=requests_of(judged),
            checks=[valid_rows(path, verdict_check(rubric))],
        )

    return preferences


def _ranking(suite: Suite) -> dg.AssetsDefinition:
    @declared_asset(
        RANKED,
        "Systems x figures by evaluator: win rates, Bradley-Terry strengths, inconsistent pairs; and the page.",
        group=GROUP,
        kinds={"html", "parquet"},
        deps=[PREFERENCES, PAIRS],
        checks=[check_spec(VALID_ROWS, RANKED, "Every row fits its schema")],
    )
    def ranked(context: dg.AssetExecutionContext, store: ParquetStore) -> Result:
        files = store.files
        path, page = files.table("benchmark/ranking"), files.root / "benchmark" / "ranking.html"
        # Runs of several evaluators end at once; each must read what the one before it has written.
        with alone(files.root / "benchmark" / ".ranking.lock"):
            pairs_path = files.existing("benchmark/pairs")
            questions = pl.read_parquet(pairs_path)
            verdicts = {
                name: pl.read_parquet(said)
                for name in comparers(suite)
                if (said := files.table("benchmark/preferences", name)).exists()
            }
            table = ranking(
                questions, verdicts, content_hash(pairs_path), Resampling.of(suite.alignment)
            )
            write_table(path, table)
            write_text(page, render_ranking(suite.name, table))
        return table_result(
            RANKED.path,
            path,
            metadata={"page": dg.MetadataValue.url(page.as_uri())},
            checks=[valid_rows(path, RANKING_VALID)],
        )

    return ranked
