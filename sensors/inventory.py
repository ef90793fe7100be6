"""The standing inventory: which partitions are left failed, which days should be complete and are not.

Bounding a retry makes a broken partition quiet, and quiet looks like fixed. So checks state the exact count every
day, whatever the sensors have done.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from assets.jobs import PUBLISH
from assets.signatures import ingest_signature, look_at_manifests, publish_manifest
from gavel.errors import GavelError
from gavel.logs.sources import by_day
from gavel.store.files import Store
from gavel.store.manifests import Manifest
from gavel.suite import Suite, load_suite
from sensors.automation import decided_retries
from sensors.decisions import causes_of, stale
from sensors.state import State, listed
from sensors.units import Unit

INVENTORY = "daily_inventory"
LEFT_FAILED, INCOMPLETE = "no_partitions_left_failed", "no_days_incomplete"
OLDER = "no_older_days_stale"

_ASSETS = {
    "ingest": ["logs/clean"],
    "judge regenerate": ["{task}/regenerated"],
    "publish": ["report/daily"],
    "release": ["{task}/rubric"],
}
"""Where the failed units of some kinds are counted."""


def inventory_checks(suite: Suite) -> list[dg.AssetChecksDefinition]:
    """`no_partitions_left_failed` on the last asset of every job; on the report, what is to be said of days."""
    tasks = suite.task_names()
    checks = [_incomplete(suite), _older(suite)]
    for kinds, names in _ASSETS.items():
        for name in names:
            if "{task}" in name:
                checks += [_left_failed(suite, kinds, name.format(task=t), t) for t in tasks]
            else:
                checks.append(_left_failed(suite, kinds, name, ""))
    return checks


def inventory_schedule(suite: Suite) -> dg.ScheduleDefinition:
    """Runs every inventory check, daily at the suite's hour."""
    job = dg.define_asset_job(
        INVENTORY,
        selection=dg.AssetSelection.checks(*(c for c in _keys(suite))),
        description="State which partitions are left failed and which days are not complete.",
    )
    return dg.ScheduleDefinition(
        name=INVENTORY,
        job=job,
        cron_schedule=f"0 {suite.automation.inventory_hour} * * *",
        execution_timezone=suite.timezone,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="Once a day, states which partitions are left failed and which days are not complete.",
    )


def _keys(suite: Suite) -> list[dg.AssetCheckKey]:
    return [key for check in inventory_checks(suite) for key in check.check_keys]


def _left_failed(suite: Suite, kinds: str, asset: str, task: str) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=dg.AssetKey(asset.split("/")),
        name=LEFT_FAILED,
        description="No partition of the look-back window is left failed with its budget spent",
    )
    def no_partitions_left_failed(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        state = _state(suite)
        left = [
            failure
            for failure in decided_retries(context.instance, state).retries.given_up
            if failure.unit.kind in kinds.split() and failure.unit.task in ("", task)
        ]
        shown = [f"{f.unit} (run {f.run_id[:8]}, {f.kind or 'see its log'})" for f in left]
        return dg.AssetCheckResult(
            passed=not left,
            severity=dg.AssetCheckSeverity.WARN,
            description=(
                f"{len(left)} left failed: {listed(shown)}. Read the error of the run named, mend what it says, "
                "and materialise the partition; a change of rows, rubric or code also gives it a new budget."
                if left
                else "none is left failed"
            ),
            metadata={"left_failed": len(left)},
        )

    return no_partitions_left_failed


def _incomplete(suite: Suite) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=dg.AssetKey(["report", "daily"]),
        name=INCOMPLETE,
        description="Every day of the look-back window whose logs are there is published as it should be",
    )
    def no_days_incomplete(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        state = _state(suite)
        reasons = {day: reason for day in state.days if (reason := why_incomplete(state, day))}
        described = "; ".join(f"{day}: {reason}" for day, reason in list(reasons.items())[:10])
        return dg.AssetCheckResult(
            passed=not reasons,
            severity=dg.AssetCheckSeverity.WARN,
            description=f"{len(reasons)} days are not complete. {described}"
            if reasons
            else "every day is complete",
            metadata={"incomplete_days": len(reasons)},
        )

    return no_days_incomplete


def _older(suite: Suite) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=dg.AssetKey(["report", "daily"]),
        name=OLDER,
        description="No day before the look-back window differs from what would be made of it now",
    )
    def no_older_days_stale(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        state = _state(suite)
        try:
            found = older_stale(state)
        except GavelError as error:
            return dg.AssetCheckResult(
                passed=False,
                severity=dg.AssetCheckSeverity.WARN,
                description=f"the days before the look-back window could not be looked at: {error}",
            )
        together = [s.name for s in state.suite.sources if not by_day(s, state.suite)]
        left_out = (
            f" Logs of {listed(together)} were not compared: a file of theirs holds many days."
            if together
            else ""
        )
        shown = [f"{older.day} ({', '.join(older.causes)})" for older in found]
        requests = sum(older.requests for older in found)
        return dg.AssetCheckResult(
            passed=not found,
            severity=dg.AssetCheckSeverity.WARN,
            description=(
                f"{len(found)} days before the look-back window are stale and left alone: {listed(shown)}. "
                "To have them as they would be made now, start a back-fill: about "
                f"{sum(older.units for older in found):,} runs and at most {requests:,} requests, fewer where "
                "the ledger holds the answers, more where logs have new rows."
                if found
                else "every older day that was ingested is as it would be made now."
            )
            + left_out,
            metadata={"stale_days": len(found), "requests_at_most": requests},
        )

    return no_older_days_stale


@dataclass(frozen=True)
class Older:
    """A stale day before the look-back window: why, and what judging it again would take at most."""

    day: str
    causes: Sequence[str]
    units: int
    requests: int


def older_stale(state: State) -> list[Older]:
    """The ingested days before the window whose logs, shards or publication are stale, newest first.

    Raises:
        GavelError: a source cannot be listed.
    """
    oldest = state.days[-1] if state.days else ""
    look_at_manifests(state.suite, state.store)
    ingested = state.store.documents("logs/clean")
    found = []
    for day in sorted((path.stem for path in ingested if path.stem < oldest), reverse=True):
        manifest = state.ingested(day)
        changed = _changed_logs(state.suite, day, manifest)
        stale_now = list(state.stale_on(day))
        if not stale_now and not changed:
            continue
        records = {} if manifest is None else manifest.figures.get("records", {})
        judged = [request.unit for request in stale_now if request.unit.kind == "judge"]
        requests = sum(-(-int(records.get(unit.task, 0)) // state.suite.shards) for unit in judged)
        causes = dict.fromkeys([*changed, *(c for request in stale_now for c in request.causes)])
        # The publication follows, where only shards are stale so far; every shard, where logs have changed.
        shards = len(state.tasks) * state.suite.shards
        units = 1 + shards + 1 if changed else len(judged) + 1
        found.append(Older(day, list(causes), units, requests))
    return found


def _changed_logs(suite: Suite, day: str, made: Manifest | None) -> Sequence[str]:
    """Why the ingest of `day` is stale; logs that are gone, or whose files hold many days, are not compared."""
    wanted = ingest_signature(suite, day)
    if made is None or wanted is None:
        return []
    many = {f"rows of {source.name}" for source in suite.sources if not by_day(source, suite)}

    def compared(signature: Mapping[str, str]) -> dict[str, str]:
        return {part: value for part, value in signature.items() if part not in many}

    causes = causes_of(compared(made.signature), compared(wanted))
    return ["logs changed" if cause == "new rows" else cause for cause in causes]


def why_incomplete(state: State, day: str) -> str:
    """Why `day` is not published as it should be; empty where it is."""
    try:
        signature = ingest_signature(state.suite, day)
    except GavelError as error:
        return str(error)
    made = state.ingested(day)
    if signature is None:
        return "a source has no logs of it" if made is None else ""
    if made is None:
        return "its logs are there and not ingested"
    if stale(Unit("ingest", day), made, signature) is not None:
        return "its logs have changed since they were ingested"
    pending: Sequence[Any] = list(state.stale_on(day))
    if pending:
        shown = [f"{request.unit} ({', '.join(request.causes)})" for request in pending]
        return f"{len(pending)} units to run: {listed(shown, 3)}"
    if publish_manifest(state.store, day).exists():
        return ""
    return f"{PUBLISH} has not run"


def _state(suite: Suite) -> State:
    now = load_suite(suite.file)
    return State(now, Store(now.path(now.store)), dt.datetime.now(dt.UTC))
