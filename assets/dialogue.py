"""The task-oriented dialogue benchmark: one partition a system, and the leaderboard over all of them."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg

from assets.processes import STARTED_AGAIN
from assets.signatures import dialogue_signature, made_from, ranking_signature
from assets.tables import (
    VALID_ROWS,
    Result,
    check_spec,
    declared_asset,
    declared_spec,
    pages_version,
    table_result,
    told_plainly,
    valid_rows,
    warning,
)
from gavel.dialogue.leaderboard import STANDINGS_VALID, leaderboard
from gavel.dialogue.predictions import content_hash
from gavel.dialogue.ratings import Ratings, read_ratings
from gavel.dialogue.results import (
    RESULTS_VALID,
    evaluated,
    prediction_file,
    standings_of,
    write_results,
)
from gavel.report.dialogue import DialoguePages, page_name, render_leaderboard
from gavel.settings.dialogue import Dialogue
from gavel.store.files import alone, keep_only, write_text
from gavel.store.manifests import Manifest
from gavel.store.tables import write_table
from gavel.suite import Suite
from resources import ParquetStore

RESULTS, PAGES, LEADERBOARD, COMPARISONS = (
    dg.AssetKey(["dialogue", name]) for name in ("results", "pages", "leaderboard", "comparisons")
)
GROUP = "dialogue"
EVALUATE, RANK = "evaluate_dialogue_system", "rank_dialogue_systems"

MOST_NOTES = 100
"""How many notes on human ratings the check tells; a table of another scale would have one a row."""

SYSTEMS = dg.DynamicPartitionsDefinition(name="dialogue_systems")
"""One partition a system, made when its prediction file arrives."""


def dialogue_assets(suite: Suite) -> list[dg.AssetsDefinition]:
    """dialogue/results and pages by system, leaderboard and comparisons; none without the section."""
    if (settings := suite.dialogue) is None:
        return []
    return [_results(suite, settings), _pages(suite, settings), _leaderboard(suite, settings)]


def dialogue_jobs(suite: Suite) -> list[Any]:
    """The job that evaluates one system and ranks it, and the one that only ranks all anew."""
    if suite.dialogue is None:
        return []
    return [
        dg.define_asset_job(
            EVALUATE,
            selection=dg.AssetSelection.groups(GROUP),
            tags=STARTED_AGAIN,
            description="Evaluate one system's predictions, and make the leaderboard anew.",
        ),
        dg.define_asset_job(
            RANK,
            selection=dg.AssetSelection.assets(LEADERBOARD, COMPARISONS),
            tags=STARTED_AGAIN,
            description="Make the leaderboard anew, from the results as they are.",
        ),
    ]


def _results(suite: Suite, settings: Dialogue) -> dg.AssetsDefinition:
    @declared_asset(
        RESULTS,
        "One row a dialogue and reading: Inform, Success and the rest, with the reason of each failure.",
        group=GROUP,
        kinds={"parquet"},
        partitions=SYSTEMS,
        checks=[
            check_spec(VALID_ROWS, RESULTS, "Every row fits its schema"),
            check_spec("complete", RESULTS, "Nothing is missing or odd", blocking=False),
        ],
    )
    def results(context: dg.AssetExecutionContext, store: ParquetStore) -> Result:
        system = context.partition_key
        path = store.files.table("dialogue/results", system)
        signature = dialogue_signature(suite, settings, system, content_hash)
        notes = write_results(suite, settings, system, path)
        for note in notes:
            context.log.warning(note)
        return table_result(
            RESULTS.path,
            path,
            metadata=standings_of(path),
            checks=[
                valid_rows(path, RESULTS_VALID),
                warning("complete", notes, {"notes": len(notes)}),
            ],
            manifest=Manifest(signature, context.run.run_id),
        )

    return results


def _pages(suite: Suite, settings: Dialogue) -> dg.AssetsDefinition:
    @declared_asset(
        PAGES,
        "What went wrong with a system: a list of reasons, and failed dialogues with marks.",
        group=GROUP,
        kinds={"html"},
        partitions=SYSTEMS,
        deps=[RESULTS],
    )
    def pages(context: dg.AssetExecutionContext, store: ParquetStore) -> dg.MaterializeResult:  # type: ignore[type-arg]
        system = context.partition_key
        made = DialoguePages(
            suite, settings, system, store.files.existing("dialogue/results", system)
        )
        shown = made.failed()[: settings.pages]
        folder = store.files.root / "dialogue" / "pages" / system
        texts = {
            "index": made.index(shown),
            **{page_name(name): made.render(name) for name in shown},
        }
        for name, text in texts.items():
            write_text(folder / f"{name}.html", text)
        keep_only(folder, ".html", texts)
        return dg.MaterializeResult(
            data_version=pages_version(texts.values()),
            metadata={
                "failed": len(made.failed()),
                "path": dg.MetadataValue.path(str(folder / "index.html")),
            },
        )

    return pages


def _leaderboard(suite: Suite, settings: Dialogue) -> dg.AssetsDefinition:
    @dg.multi_asset(
        name="dialogue_leaderboard",
        specs=[
            declared_spec(
                LEADERBOARD,
                "Systems x figures with intervals, published figures and signatures; and its page.",
                group=GROUP,
                kinds={"html", "parquet"},
                deps=[RESULTS],
            ),
            declared_spec(
                COMPARISONS,
                "Paired tests of every two systems by every figure.",
                group=GROUP,
                kinds={"parquet"},
                deps=[RESULTS],
            ),
        ],
        check_specs=[
            check_spec(VALID_ROWS, LEADERBOARD, "Every row fits its schema"),
            check_spec("ratings", LEADERBOARD, "Every human rating counts", blocking=False),
        ],
    )
    @told_plainly
    def ranked(context: dg.AssetExecutionContext, store: ParquetStore) -> tuple[Result, Result]:
        files = store.files
        # Runs of several systems end at once; each must read what the one before it has written.
        with alone(files.root / "dialogue" / ".leaderboard.lock"):
            results = evaluated(files)
            signature = ranking_signature(suite, settings, results, content_hash)
            ratings = Ratings({}, "")
            if settings.ratings is not None:
                ratings = read_ratings(suite.path(settings.ratings), [p.stem for p in results])
            outdated = _outdated(suite, settings, results)
            gone = {s for s in outdated if not prediction_file(suite, settings, s).exists()}
            standings, comparisons = leaderboard(settings, results, ratings, outdated, gone)
            path = files.table("dialogue/leaderboard")
            tests_path = files.table("dialogue/comparisons")
            write_table(path, standings)
            write_table(tests_path, comparisons)
            page = files.root / "dialogue" / "leaderboard.html"
            write_text(page, render_leaderboard(suite.name, standings, comparisons))
        notes = [*ratings.notes[:MOST_NOTES]]
        if (more := len(ratings.notes) - MOST_NOTES) > 0:
            notes.append(f"and {more:,} more like these")
        for note in notes:
            context.log.warning(note)
        return (
            table_result(
                LEADERBOARD.path,
                path,
                metadata={"systems": len(results), "page": dg.MetadataValue.path(str(page))},
                checks=[
                    valid_rows(path, STANDINGS_VALID),
                    warning("ratings", notes, {"notes": len(ratings.notes)}),
                ],
                manifest=Manifest(signature, context.run.run_id),
            ),
            table_result(COMPARISONS.path, tests_path),
        )

    return ranked


def _outdated(suite: Suite, settings: Dialogue, results: Sequence[Path]) -> set[str]:
    """The systems whose results are made from something else than what is there now."""
    content = cache(content_hash)
    return {
        path.stem
        for path in results
        if made_from(path) != dialogue_signature(suite, settings, path.stem, content)
    }
