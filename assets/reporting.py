"""The end of a day: the audit of everything that happened, and the page a person opens."""

import datetime as dt
from collections.abc import Sequence
from typing import Any

import dagster as dg
import orjson

from assets.partitions import daily, opinion_files, shard_files
from assets.signatures import publish_manifest, reported_signature
from assets.tables import (
    VALID_ROWS,
    Result,
    check_spec,
    declared_asset,
    pages_version,
    table_result,
    valid_rows,
)
from gavel.report.audit import events
from gavel.report.day import day_report, record_pages
from gavel.report.page import render_day
from gavel.report.validity import EVENTS_VALID
from gavel.store.bucket import shown
from gavel.store.files import keep_only, write_text
from gavel.store.manifests import Manifest, signature_hash, write_manifest
from gavel.store.tables import write_table
from gavel.suite import Suite
from resources import ParquetStore

EVENTS, REPORT = dg.AssetKey(["audit", "events"]), dg.AssetKey(["report", "daily"])


def report_assets(suite: Suite, tasks: Sequence[str]) -> list[dg.AssetsDefinition]:
    """audit/events and report/daily, by day, over all tasks."""
    days = daily(suite)

    @declared_asset(
        EVENTS,
        "One row an event: validation failure, retry, regeneration, publication.",
        group="report",
        partitions=days,
        kinds={"duckdb", "parquet"},
        deps=[dg.AssetKey([task, name]) for task in tasks for name in ("published", "regenerated")],
        checks=[check_spec(VALID_ROWS, EVENTS, "Every event is of a known kind")],
    )
    def audit(context: dg.AssetExecutionContext, store: ParquetStore) -> Result:
        day, files = context.partition_key, store.files
        by_task = {
            task: (
                shard_files(suite, files, f"{task}/verdicts", day),
                [
                    *shard_files(suite, files, f"{task}/regenerated", day),
                    *opinion_files(suite, files, task, day),
                ],
            )
            for task in tasks
        }
        notes = [
            orjson.loads(files.document(f"{task}/published/{day}").read_bytes()) for task in tasks
        ]
        table = events(day, by_task, [_publication(note) for note in notes])
        path = files.table("audit/events", day)
        write_table(path, table)
        kinds = table.column("kind").value_counts().to_pylist()
        return table_result(
            EVENTS.path,
            path,
            volatile=("time", "run_id"),
            metadata={kind["values"]: kind["counts"] for kind in kinds},
            checks=[valid_rows(path, EVENTS_VALID)],
        )

    @declared_asset(
        REPORT,
        "The page of the day: one self-contained HTML file.",
        group="report",
        partitions=days,
        kinds={"html"},
        deps=[EVENTS, *(dg.AssetKey([task, "quality"]) for task in tasks)],
        checks=[
            check_spec(
                "nothing_is_lost",
                REPORT,
                "Every equality of the day's accounting holds, over all tasks",
            )
        ],
    )
    def report(context: dg.AssetExecutionContext, store: ParquetStore) -> Result:
        day, files = context.partition_key, store.files
        noted = publish_manifest(files, day)
        signature = reported_signature(suite, files, day, tasks)
        gathered = day_report(suite, files, day, tasks)
        path = files.root / "report" / f"{day}.html"
        pages = set()
        for task in tasks:
            for row_id, record in record_pages(suite, files, day, task):
                write_text(path.with_suffix("") / f"{row_id}.html", record)
                pages.add(row_id)
        keep_only(path.with_suffix(""), ".html", pages)
        page = render_day(gathered)
        write_text(path, page)
        broken = [e for e in gathered.equalities if not e.holds]
        check = dg.AssetCheckResult(
            check_name="nothing_is_lost",
            passed=not broken,
            description="; ".join(f"{e.scope}: {e.statement}: {e.left} = {e.right}" for e in broken)
            or f"all {len(gathered.equalities)} equalities hold",
        )
        if not broken:
            manifest = Manifest(
                signature, context.run.run_id, figures={"warnings": dict(gathered.warnings)}
            )
            write_manifest(noted, manifest)
        return dg.MaterializeResult(
            data_version=pages_version([page]),
            tags={"gavel/signature": signature_hash(signature)},
            metadata={
                "page": dg.MetadataValue.url(path.as_uri()),
                "path": dg.MetadataValue.path(shown(path)),
                "warnings": len(gathered.warnings),
            },
            check_results=[check],
        )

    return [audit, report]


def _publication(note: dict[str, Any]) -> dict[str, Any]:
    """A publication's note as the audit takes it."""
    return {
        "time": dt.datetime.fromisoformat(note["time"]),
        "task": note["task"],
        "run_id": note["run_id"],
        "code": "published",
        "detail": f"{note['rows']:,} rows",
    }
