"""Stage `logs`: source rows verbatim, the canonical records among them, and the rejected rest."""

from functools import partial
from typing import Any

import dagster as dg

from assets.partitions import daily
from assets.signatures import ingest_manifest, ingest_signature
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
from gavel.logs.clean import CleanCounts
from gavel.logs.validity import CLEAN_VALID, RAW_VALID, REJECTED_VALID
from gavel.store.manifests import Manifest, outdate, read_manifest
from gavel.store.tables import content_hash, rows_hash
from gavel.suite import Suite
from resources import LogSource, ParquetStore

RAW, CLEAN, REJECTED = (dg.AssetKey(["logs", name]) for name in ("raw", "clean", "rejected"))


def log_assets(suite: Suite) -> list[dg.AssetsDefinition]:
    """logs/raw, logs/clean and logs/rejected, by day."""
    days = daily(suite)

    @declared_asset(
        RAW,
        "The day's source rows verbatim, one row a source row, unparseable lines included.",
        group="logs",
        kinds={"parquet"},
        partitions=days,
        checks=[check_spec(VALID_ROWS, RAW, "Every source row has its place and its bytes")],
    )
    def raw(context: dg.AssetExecutionContext, logs: LogSource, store: ParquetStore) -> Result:
        day, path = context.partition_key, store.files.table("logs/raw", context.partition_key)
        # Taken before the rows are read: whatever comes meanwhile makes another fingerprint later.
        signature = ingest_signature(logs.suite(), day) or {}
        scans = logs.scans(day)
        for scan in scans.values():
            if scan.warning is not None:
                context.log.warning(scan.warning)
        outdate(ingest_manifest(store.files, day), signature)
        rows = logs.write_raw(day, path)
        context.log.info(f"{rows:,} source rows")
        return table_result(
            RAW.path,
            path,
            metadata={f"bytes_scanned_{name}": scan.bytes for name, scan in scans.items()},
            checks=[valid_rows(path, RAW_VALID)],
            manifest=Manifest(signature, context.run.run_id),
        )

    spec = partial(declared_spec, group="logs", kinds={"duckdb", "parquet"}, deps=[RAW])

    @dg.multi_asset(
        name="clean_logs",
        specs=[
            spec(CLEAN, "Canonical records: one turn each, typed, with unknown columns kept."),
            spec(REJECTED, "Rows that are no record, with every reason that holds, verbatim."),
        ],
        check_specs=by_partition(
            [
                check_spec(
                    "raw_is_clean_plus_rejected", CLEAN, "Nothing is lost: raw = clean + rejected"
                ),
                check_spec(VALID_ROWS, CLEAN, "Every record fits its schema"),
                check_spec(
                    "rejected_rate", REJECTED, "Few rows of the day are rejected", blocking=False
                ),
                check_spec(
                    VALID_ROWS, REJECTED, "Every rejected row has known reasons", blocking=False
                ),
            ],
            days,
        ),
        partitions_def=days,
    )
    @told_plainly
    def clean(
        context: dg.AssetExecutionContext, logs: LogSource, store: ParquetStore
    ) -> tuple[Result, Result]:
        day, files = context.partition_key, store.files
        clean_path, rejected = files.table("logs/clean", day), files.table("logs/rejected", day)
        raw_path = files.existing("logs/raw", day)
        made_from = read_manifest(raw_path.with_suffix(".json"))
        counts = logs.write_clean(raw_path, clean_path, rejected)
        content = {task: rows_hash(clean_path, f"task = '{task}'") for task in counts.by_task}
        manifest = Manifest(
            {} if made_from is None else made_from.signature,
            context.run.run_id,
            figures={
                "tasks": content,
                "records": counts.by_task,
                "rejected": content_hash(rejected),
            },
        )
        return _clean_results(suite, counts, clean_path, rejected, manifest)

    return [raw, clean]


def _clean_results(
    suite: Suite, counts: CleanCounts, clean_path: Any, rejected: Any, manifest: Manifest
) -> tuple[Result, Result]:
    sides = {"raw": counts.raw, "clean": counts.clean, "rejected": counts.rejected}
    rate = counts.rejected / counts.raw if counts.raw else 0.0
    bound = suite.quality.max_rejected_rate
    reasons = {reason: count for reason, count in counts.by_reason.items() if count}
    sentences = (
        [
            f"{rate:.1%} of {counts.raw:,} rows were rejected (at most {bound:.1%} expected): {reasons}"
        ]
        if rate > bound
        else []
    )
    holds = counts.raw == counts.clean + counts.rejected
    accounting = equality("raw_is_clean_plus_rejected", sides, holds)
    return (
        table_result(
            CLEAN.path,
            clean_path,
            metadata={f"records_{task}": count for task, count in counts.by_task.items()},
            checks=[accounting, valid_rows(clean_path, CLEAN_VALID, unique="row_id")],
            manifest=manifest,
        ),
        table_result(
            REJECTED.path,
            rejected,
            metadata={"rejected_rate": rate, **{f"rejected_{r}": n for r, n in reasons.items()}},
            checks=[
                warning("rejected_rate", sentences, {"rejected_rate": rate}),
                valid_rows(rejected, REJECTED_VALID),
            ],
        ),
    )
