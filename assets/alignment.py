"""People's labels, whom to ask for more, and how far the evaluator can be trusted by them."""

from collections.abc import Sequence
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq

from assets.processes import STARTED_AGAIN
from assets.tables import (
    VALID_ROWS,
    Result,
    check_spec,
    declared_asset,
    table_result,
    valid_rows,
    warning,
)
from gavel.alignment.evidence import Evidence, evidence
from gavel.alignment.figures import calibrations, metrics, plotted
from gavel.alignment.labels import counts, missing_labels, read_labels, sentences
from gavel.alignment.sample import changed_settings, missed_strata, sample
from gavel.alignment.schema import FIGURES_VALID, LABELS_VALID, SAMPLE_VALID
from gavel.alignment.sheets import write_sheets
from gavel.store.files import Store
from gavel.store.tables import write_table
from gavel.suite import Suite
from resources import ParquetStore

GROUP = "alignment"
POOL = "alignment"
"""One run measures at a time, or an older one could have the last word."""
ALIGN, DRAW = "measure_alignment", "draw_sample"
LABELS, SAMPLE, METRICS, CALIBRATION = (
    dg.AssetKey([GROUP, name]) for name in ("labels", "sample", "metrics", "calibration")
)


def alignment_assets(suite: Suite) -> list[dg.AssetsDefinition]:
    """alignment/labels, sample, metrics and calibration, over all tasks and days."""
    scores = [dg.AssetKey([task, "scores"]) for task in suite.task_names()]
    return [
        _labels(suite, scores),
        _sample(suite, scores),
        _metrics(suite, scores),
        _calibration(suite, scores),
    ]


def alignment_jobs() -> list[Any]:
    """What reads labels and measures the evaluator against them, and what draws records for labelling."""
    return [
        dg.define_asset_job(
            DRAW,
            selection=[f"{GROUP}/sample"],
            description="Draw the records that people are asked to label, and write their sheets.",
        ),
        dg.define_asset_job(
            ALIGN,
            selection=[f"{GROUP}/{name}" for name in ("labels", "metrics", "calibration")],
            tags=STARTED_AGAIN,
            description="Read people's labels and hold the evaluator against them.",
        ),
    ]


def _labels(suite: Suite, scores: list[dg.AssetKey]) -> dg.AssetsDefinition:
    @declared_asset(
        LABELS,
        "One row a label that a person gave: usable, or rejected with every reason.",
        group=GROUP,
        pool=POOL,
        kinds={"parquet"},
        deps=scores,
        checks=[
            check_spec(VALID_ROWS, LABELS, "Every row fits its schema"),
            check_spec("provided", LABELS, "There are labels", blocking=False),
            check_spec("usable", LABELS, "Every label is usable", blocking=False),
        ],
    )
    def labels(context: dg.AssetExecutionContext, store: ParquetStore) -> Result:
        table = read_labels(suite, store.files)
        path = store.files.table("alignment/labels")
        write_table(path, table)
        counted = counts(table)
        missing = [] if counted["usable"] else [missing_labels(suite)]
        return table_result(
            LABELS.path,
            path,
            metadata=counted,
            checks=[
                valid_rows(path, LABELS_VALID),
                warning("provided", missing, {"usable": counted["usable"]}),
                warning("usable", sentences(table), {"rejected": counted["rejected"]}),
            ],
        )

    return labels


def _sample(suite: Suite, scores: list[dg.AssetKey]) -> dg.AssetsDefinition:
    @declared_asset(
        SAMPLE,
        "The records that people are asked to label, with the chance each had of being drawn; and their sheets.",
        group=GROUP,
        pool=POOL,
        kinds={"parquet"},
        deps=scores,
        checks=[
            check_spec(VALID_ROWS, SAMPLE, "Every record was drawn once, by a known chance"),
            check_spec("drawn", SAMPLE, "The sample is of the present settings", blocking=False),
        ],
    )
    def drawn(context: dg.AssetExecutionContext, store: ParquetStore) -> Result:
        files = store.files
        table = sample(suite, files)
        path = files.table("alignment/sample")
        write_table(path, table)
        folder = files.root / GROUP / "sheets"
        written = write_sheets(suite, files, table, folder)
        told = [*changed_settings(suite, table), *missed_strata(suite, files, table)]
        if not table.num_rows:
            told.append("no record is scored yet: evaluate a day first, then draw the sample")
        return table_result(
            SAMPLE.path,
            path,
            metadata={
                "records": table.num_rows,
                "rounds": len(set(table["round"].to_pylist())),
                "files": len(written),
                "sheets": dg.MetadataValue.path(str(folder)),
            },
            checks=[
                valid_rows(path, SAMPLE_VALID, unique="row_id"),
                warning("drawn", told, {"records": table.num_rows}),
            ],
        )

    return drawn


def _metrics(suite: Suite, scores: list[dg.AssetKey]) -> dg.AssetsDefinition:
    @declared_asset(
        METRICS,
        "How well the evaluator agrees with people and people with each other; corrected means; biases.",
        group=GROUP,
        pool=POOL,
        kinds={"parquet"},
        deps=[LABELS, SAMPLE, *scores],
        checks=[
            check_spec(VALID_ROWS, METRICS, "Every figure is a finite number or says why not"),
            check_spec("measured", METRICS, "There are labels to measure by", blocking=False),
            check_spec("unbiased", METRICS, "No bias is seen beyond chance", blocking=False),
        ],
    )
    def measured(context: dg.AssetExecutionContext, store: ParquetStore) -> Result:
        found = _evidence(suite, store.files)
        table = metrics(found, store.files)
        biased = [
            f"{row['task']}, {row['field']}: {row['note']}"
            for row in table.to_pylist()
            if row["figure"] == "bias_effect" and (row["note"] or "").startswith("at the same")
        ]
        told = warning("unbiased", biased, {"biases": len(biased)})
        return _figures(suite, store.files, METRICS, table, found, [told])

    return measured


def _calibration(suite: Suite, scores: list[dg.AssetKey]) -> dg.AssetsDefinition:
    @declared_asset(
        CALIBRATION,
        "Whether the evaluator's confidence says how often it is right, before and after recalibration.",
        group=GROUP,
        pool=POOL,
        kinds={"parquet"},
        deps=[LABELS, SAMPLE, *scores],
        checks=[
            check_spec(VALID_ROWS, CALIBRATION, "Every figure is a finite number or says why not"),
            check_spec("measured", CALIBRATION, "There are labels to measure by", blocking=False),
        ],
    )
    def calibrated(context: dg.AssetExecutionContext, store: ParquetStore) -> Result:
        found = _evidence(suite, store.files)
        return _figures(suite, store.files, CALIBRATION, calibrations(found), found)

    return calibrated


def _evidence(suite: Suite, files: Store) -> list[Evidence]:
    """The labels beside the scores."""
    labels = pq.read_table(files.existing("alignment/labels"))
    # Labels may come without a sample of ours; what was drawn tells the chances.
    drawn = files.table("alignment/sample")
    sampled = pq.read_table(drawn) if drawn.exists() else pa.table({"row_id": []})
    return list(evidence(suite, files, labels, sampled))


def _figures(
    suite: Suite,
    files: Store,
    key: dg.AssetKey,
    table: pa.Table,
    found: list[Evidence],
    checks: Sequence[dg.AssetCheckResult] = (),
) -> Result:
    """Write the figures; say how to provide labels where there are none."""
    path = files.table("/".join(key.path))
    write_table(path, table)
    labelled = {row_id for each in found for items in each.references.values() for row_id in items}
    missing = [] if found else [missing_labels(suite)]
    return table_result(
        key.path,
        path,
        metadata={"labelled_records": len(labelled), **plotted(table)},
        checks=[
            valid_rows(path, FIGURES_VALID),
            warning("measured", missing, {"figures": table.num_rows}),
            *checks,
        ],
    )
