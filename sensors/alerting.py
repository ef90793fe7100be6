"""The sensor that tells a person: what is given up, which check failed, which evaluator is down, what drifted."""

import json

import dagster as dg

from assets.signatures import publish_manifest
from gavel.alerts import Alert, tell
from gavel.suite import Suite
from sensors.automation import decided_retries, made_sensor
from sensors.decisions import Failed
from sensors.state import State

_MOST = 200
"""Open alerts that the cursor keeps."""


def alert_sensor(suite: Suite) -> dg.SensorDefinition:
    """The sensor `alerts`."""
    return made_sensor(
        suite,
        "alerts",
        [],
        alerts,
        "Tells once of each condition that a person has to act on: a partition given up, a blocking check "
        "failed, an evaluator down, drift. Tells again only after it has cleared and come back.",
    )


def alerts(context: dg.SensorEvaluationContext, state: State) -> dg.SensorResult:
    """Tell what holds now to whom it was not told before. Who does not take it is tried again at the next tick."""
    holding = conditions(context, state)[:_MOST]
    settings = state.suite.automation.alerts
    told = tell(_told_before(context.cursor), holding, settings, context.log.warning)
    counts = f"{told.news} told, {len(told.receivers)} open"
    return dg.SensorResult(
        skip_reason="; ".join([counts, *told.broken]), cursor=json.dumps(told.receivers)
    )


def conditions(context: dg.SensorEvaluationContext, state: State) -> list[Alert]:
    """Every condition that holds."""
    decided = decided_retries(context.instance, state)
    down = [f for f in decided.failing if f.kind == "EvaluatorOutage"]
    found = []
    if down:
        found.append(
            Alert(
                "evaluator down",
                "evaluator_down",
                f"The evaluator is down: {len(down)} partitions wait for it, such as {down[0].unit}.",
                "They are retried with back-off by themselves; see to the endpoint.",
            )
        )
    for day in state.days:
        manifest = state.manifest(publish_manifest(state.store, day))
        told = {} if manifest is None else manifest.figures.get("warnings", {})
        for moved, sentence in told.items():
            found.append(
                Alert(
                    f"quality {day} {moved}",
                    "quality",
                    f"{day}: {sentence}",
                    "Open the day's report; if the agent did not change, look at the evaluator.",
                )
            )
    # Last, since one cause may give up very many.
    return [*found, *map(_given_up, decided.retries.given_up)]


def _given_up(failure: Failed) -> Alert:
    if failure.kind is not None and failure.kind.startswith("check:"):
        kind, why = "blocking_check", f"its check {failure.kind[6:]} failed"
        todo = "Open the check in the UI: it says what it found."
    elif failure.permanent:
        kind, why = (
            "failed_for_good",
            f"it fails with {failure.kind}, which trying again cannot mend",
        )
        todo = "Read the run's error, mend what it names, and materialise the partition."
    else:
        kind, why = "failed_for_good", f"it failed {failure.attempt} times"
        todo = "Read the latest run's error; a change of its rows, rubric or code gives it a new budget."
    what = f"{failure.unit} is given up: {why} (run {failure.run_id[:8]})."
    return Alert(f"{failure.unit} {failure.signature}", kind, what, todo)


def _told_before(cursor: str | None) -> dict[str, list[str]]:
    """The receivers of each open alert; of a cursor that cannot be read none: better told twice than never."""
    try:
        kept = json.loads(cursor or "{}")
        return {key: [str(name) for name in names] for key, names in kept.items()}
    except (ValueError, TypeError, AttributeError):
        return {}
