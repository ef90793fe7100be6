"""The fashion assistant benchmark: data made step by step, results by language and system, the leaderboard."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow.parquet as pq

from assets.tables import (
    VALID_ROWS,
    Result,
    by_partition,
    check_spec,
    declared_asset,
    declared_spec,
    equality,
    table_result,
    told_plainly,
    valid_rows,
    warning,
)
from gavel.fashion.benchmark import (
    Bench,
    write_goals,
    write_language,
    write_leaderboard,
    write_results,
    write_simulated,
    write_statistics,
    write_verified,
)
from gavel.fashion.dataset import DATASET_VALID
from gavel.fashion.goals import repeated_items
from gavel.fashion.leaderboard import STANDINGS_VALID, baselines_out_of_order
from gavel.fashion.scores import RESULTS_VALID, VOLATILE
from gavel.fashion.simulate import Ground
from gavel.fashion.verify import UNANSWERED
from gavel.report.fashion import render_fashion
from gavel.settings.fashion import Fashion
from gavel.store.files import replacing
from gavel.store.tables import count_rows
from gavel.suite import Suite
from resources import ParquetStore

GOALS, SIMULATED, VERIFIED, CONVERSATIONS, REMOVED, STATISTICS, RESULTS, LEADERBOARD = (
    dg.AssetKey(["fashion", name])
    for name in (
        *("goals", "simulated", "verified", "conversations"),
        *("removed", "statistics", "results", "leaderboard"),
    )
)
GROUP = "fashion"
LANGUAGE, SYSTEM = "language", "system"
MAKE, TRANSLATE, EVALUATE, RANK = (
    *("make_fashion_data", "translate_fashion_data"),
    *("evaluate_fashion_system", "rank_fashion_systems"),
)


def fashion_assets(suite: Suite) -> list[dg.AssetsDefinition]:
    """The group `fashion`, goals to leaderboard; none without the section."""
    if (settings := suite.fashion) is None:
        return []
    return [
        *_data(suite, settings),
        _language(suite, settings),
        _statistics(suite, settings),
        _results(suite, settings),
        _leaderboard(suite, settings),
    ]


def fashion_jobs(suite: Suite) -> list[Any]:
    """The jobs that make the data, translate it to one language, evaluate one system in it, and rank."""
    if suite.fashion is None:
        return []

    def job(name: str, keys: Sequence[dg.AssetKey], description: str) -> Any:
        return dg.define_asset_job(
            name, selection=dg.AssetSelection.assets(*keys), description=description
        )

    return [
        job(MAKE, (GOALS, SIMULATED, VERIFIED), "Make the fashion data: goals, simulate, verify."),
        job(
            TRANSLATE,
            (CONVERSATIONS, REMOVED, STATISTICS),
            "The fashion data set in one language, and what is counted of it.",
        ),
        job(EVALUATE, (RESULTS,), "Evaluate one system on the fashion data of one language."),
        job(RANK, (LEADERBOARD,), "Make the fashion leaderboard of what is evaluated."),
    ]


def fashion_steps(suite: Suite) -> list[tuple[str, str | None]]:
    """The runs that make up the whole benchmark, in order: each a job's name and its partition."""
    if (settings := suite.fashion) is None:
        return []
    languages = [str(language) for language in settings.languages]
    return [
        (MAKE, None),
        *((TRANSLATE, language) for language in languages),
        *(
            (EVALUATE, dg.MultiPartitionKey({LANGUAGE: language, SYSTEM: system}))
            for language in languages
            for system in settings.systems
        ),
        (RANK, None),
    ]


def _languages(settings: Fashion) -> dg.StaticPartitionsDefinition:
    return dg.StaticPartitionsDefinition([str(language) for language in settings.languages])


def _bench(
    suite: Suite, settings: Fashion, context: dg.AssetExecutionContext, store: ParquetStore
) -> Bench:
    return Bench(Ground(suite, settings), store.files, context.run.run_id, context.log.info)


def _data(suite: Suite, settings: Fashion) -> list[dg.AssetsDefinition]:
    @declared_asset(
        GOALS,
        "What simulated customers want: items and themes, of the evaluation and the development split.",
        group=GROUP,
        kinds={"parquet"},
        checks=[
            check_spec(
                "items_are_distinct",
                GOALS,
                "No two items of a split are the same",
                blocking=False,
            )
        ],
    )
    def goals(context: dg.AssetExecutionContext, store: ParquetStore) -> Result:
        path = write_goals(_bench(suite, settings, context, store))
        odd = repeated_items(pq.read_table(path).to_pylist())
        return table_result(
            GOALS.path,
            path,
            checks=[warning("items_are_distinct", odd, {"splits": len(odd)})],
        )

    @declared_asset(
        SIMULATED,
        "One conversation for each goal, in English: customer and assistant, through the ledger.",
        group=GROUP,
        kinds={"parquet"},
        deps=[GOALS],
    )
    def simulated(context: dg.AssetExecutionContext, store: ParquetStore) -> Result:
        path = write_simulated(_bench(suite, settings, context, store))
        return table_result(SIMULATED.path, path, metadata=_counts(path, "outcome", "id"))

    @declared_asset(
        VERIFIED,
        "Which conversations are kept; each removal has its ground and reason. People's decisions win.",
        group=GROUP,
        kinds={"parquet"},
        deps=[SIMULATED],
    )
    def verified(context: dg.AssetExecutionContext, store: ParquetStore) -> Result:
        path = write_verified(_bench(suite, settings, context, store))
        metadata = {
            "kept": count_rows([path], "kept"),
            "removed": count_rows([path], "NOT kept"),
            "unanswered": count_rows(
                [path], f"array_to_string(reasons, '|') LIKE '%{UNANSWERED}%'"
            ),
        }
        return table_result(VERIFIED.path, path, metadata=metadata)

    return [goals, simulated, verified]


def _language(suite: Suite, settings: Fashion) -> dg.AssetsDefinition:
    partitions = _languages(settings)

    spec = partial(declared_spec, group=GROUP, kinds={"parquet"}, deps=[SIMULATED, VERIFIED])

    @dg.multi_asset(
        name="fashion_language",
        specs=[
            spec(
                CONVERSATIONS,
                "The data set of a language, one row a message pair; queries stay English.",
            ),
            spec(
                REMOVED,
                "What was removed from the data set of a language, with grounds and reasons.",
            ),
        ],
        check_specs=by_partition(
            [
                check_spec(VALID_ROWS, CONVERSATIONS, "Every row fits its schema"),
                check_spec("accounted", CONVERSATIONS, "selected = kept + removed"),
            ],
            partitions,
        ),
        partitions_def=partitions,
    )
    @told_plainly
    def language(context: dg.AssetExecutionContext, store: ParquetStore) -> tuple[Result, Result]:
        made = write_language(_bench(suite, settings, context, store), context.partition_key)
        sides = {"selected": made.selected, "kept": made.kept, "removed": made.lost}
        return (
            table_result(
                CONVERSATIONS.path,
                made.conversations,
                metadata={"conversations": made.kept},
                checks=[
                    valid_rows(made.conversations, DATASET_VALID),
                    equality("accounted", sides, made.selected == made.kept + made.lost),
                ],
            ),
            table_result(REMOVED.path, made.removed),
        )

    return language


def _statistics(suite: Suite, settings: Fashion) -> dg.AssetsDefinition:
    @declared_asset(
        STATISTICS,
        "Messages, tokens, lengths, searches and attributes of the data set of a language.",
        group=GROUP,
        kinds={"parquet"},
        partitions=_languages(settings),
        deps=[CONVERSATIONS],
    )
    def counted(context: dg.AssetExecutionContext, store: ParquetStore) -> Result:
        path = write_statistics(_bench(suite, settings, context, store), context.partition_key)
        return table_result(STATISTICS.path, path)

    return counted


def _results(suite: Suite, settings: Fashion) -> dg.AssetsDefinition:
    partitions = dg.MultiPartitionsDefinition(
        {
            LANGUAGE: _languages(settings),
            SYSTEM: dg.StaticPartitionsDefinition(list(settings.systems)),
        }
    )

    @declared_asset(
        RESULTS,
        "One row a conversation and mode: the system's queries, failures, cost and scores.",
        group=GROUP,
        kinds={"parquet"},
        partitions=partitions,
        deps=[CONVERSATIONS],
        checks=[check_spec(VALID_ROWS, RESULTS, "Every row fits its schema")],
    )
    def results(context: dg.AssetExecutionContext, store: ParquetStore) -> Result:
        key = context.partition_key
        assert isinstance(key, dg.MultiPartitionKey)
        language, system = key.keys_by_dimension[LANGUAGE], key.keys_by_dimension[SYSTEM]
        path = write_results(_bench(suite, settings, context, store), system, language)
        return table_result(
            RESULTS.path,
            path,
            volatile=VOLATILE,
            metadata=_means(path),
            checks=[valid_rows(path, RESULTS_VALID)],
        )

    return results


def _leaderboard(suite: Suite, settings: Fashion) -> dg.AssetsDefinition:
    @declared_asset(
        LEADERBOARD,
        "Systems by language and mode, with intervals, cost and published figures; and its page.",
        group=GROUP,
        kinds={"html", "parquet"},
        deps=[RESULTS, CONVERSATIONS, REMOVED],
        checks=[
            check_spec(VALID_ROWS, LEADERBOARD, "Every row fits its schema"),
            check_spec(
                "baselines_in_order",
                LEADERBOARD,
                "YAKE is better than popularity, and popularity better than lorem",
                blocking=False,
            ),
        ],
    )
    def ranked(context: dg.AssetExecutionContext, store: ParquetStore) -> Result:
        bench = _bench(suite, settings, context, store)
        path, found = write_leaderboard(bench)
        rows = pq.read_table(path).to_pylist()
        page = store.files.root / "fashion" / "leaderboard.html"
        with replacing(page) as temporary:
            text = render_fashion(suite.name, settings, rows, store.files, bench.ground.vocabulary)
            temporary.write_text(text, encoding="utf-8")
        odd = baselines_out_of_order(rows)
        return table_result(
            LEADERBOARD.path,
            path,
            metadata={"results": found, "page": dg.MetadataValue.path(str(page))},
            checks=[
                valid_rows(path, STANDINGS_VALID),
                warning("baselines_in_order", odd, {"out_of_order": len(odd)}),
            ],
        )

    return ranked


def _counts(path: Path, column: str, of: str) -> dict[str, int]:
    """How many conversations have each value of `column`."""
    table = pq.read_table(path, columns=[of, column])
    values = dict(zip(table[of].to_pylist(), table[column].to_pylist(), strict=True))
    found: dict[str, int] = {}
    for value in values.values():
        found[f"{column}/{value}"] = found.get(f"{column}/{value}", 0) + 1
    return found


def _means(path: Path) -> dict[str, float]:
    """A system's requests and cost, and the plain means of its scores by mode, for the UI to plot over time."""
    columns = ["mode", "bertscore", "similarity", "requests", "cost_usd"]
    rows = pq.read_table(path, columns=columns).to_pylist()
    found = {"requests": sum(row["requests"] for row in rows)}
    if all(row["cost_usd"] is not None for row in rows):
        found["cost_usd"] = sum(row["cost_usd"] for row in rows)
    for mode in sorted({row["mode"] for row in rows}):
        for figure in ("bertscore", "similarity"):
            values = [r[figure] for r in rows if r["mode"] == mode and r[figure] is not None]
            if values:
                found[f"{mode}/{figure}"] = sum(values) / len(values)
    return found
