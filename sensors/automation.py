"""The sensors that keep the days of the look-back window fresh. Each tick reads manifests and run records only."""

import datetime as dt
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import dagster as dg

from assets.jobs import INGEST, PUBLISH, RELEASE, judge_job, regenerate_job
from assets.partitions import shard_keys
from assets.signatures import EARLIER, ingest_signature, judge_manifest
from gavel.errors import EvaluatorOutage, EvaluatorRefused, GavelError, MissingExtra
from gavel.judge.backends import budget_spent
from gavel.judge.releases import release_number, release_state
from gavel.judge.rubric import load_rubric
from gavel.store.files import Store
from gavel.store.manifests import signature_hash
from gavel.suite import Suite, load_suite
from sensors.decisions import Failed, Probes, Request, Retries, admitted, retries, settled, stale
from sensors.loaded import Loaded
from sensors.state import State, asked_before, at_work, failed_units, listed, run_request
from sensors.units import Unit

Tick = Callable[[dg.SensorEvaluationContext, State], dg.SensorResult]


def automation_sensors(suite: Suite, jobs: Sequence[Any]) -> list[dg.SensorDefinition]:
    """Every sensor that asks for runs, of `jobs`."""
    by_name = {job.name: job for job in jobs}
    tasks = suite.task_names()
    judging = [by_name[judge_job(task)] for task in tasks]
    again = [by_name[regenerate_job(task)] for task in tasks]
    ingest, release, publish = by_name[INGEST], by_name[RELEASE], by_name[PUBLISH]
    return [
        made_sensor(suite, "log_arrivals", [ingest], log_arrivals, (
            "Asks for the ingest of a day of the look-back window when every source has files of it and their "
            "names, sizes or times, the time zone or the settings of the sources differ from what the day was "
            "made from."
        )),
        made_sensor(suite, "rubric_releases", [release], rubric_releases, (
            "Asks for the release of the rubrics when a file under prompts/ differs from what is released."
        )),
        made_sensor(suite, "stale_partitions", [*judging, publish], stale_partitions, (
            "Asks for a shard's judging when its rows, the rubric, the evaluator or the code differ from what it "
            "was made from, and for a day's publication when all its shards are fresh and it is not, or when the "
            "days that its drift is measured against have changed and settled."
        )),
        made_sensor(suite, "failed_partitions", [ingest, release, *judging, *again, publish], failed_partitions, (
            "Asks for a failed partition again, alone, after a back-off that doubles, within the attempt budget. "
            "Failures that would come again are not retried."
        )),
        made_sensor(suite, "unresolved_records", again, unresolved_records, (
            "Asks once more for a fresh shard's unresolved records, when the evaluator answers a probe, within "
            "the rounds allowed. A round that fails is left to failed_partitions."
        )),
    ]  # fmt: skip


def made_sensor(
    suite: Suite, name: str, jobs: Sequence[Any], tick: Tick, description: str
) -> dg.SensorDefinition:
    file, loaded = str(suite.file), Loaded(suite, suite.task_names())

    @dg.sensor(
        name=name,
        jobs=list(jobs),
        minimum_interval_seconds=suite.automation.interval,
        description=description,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        try:
            now = load_suite(file)
            store = Store(now.path(now.store))
            return tick(context, State(now, store, dt.datetime.now(dt.UTC), loaded))
        except GavelError as error:
            return dg.SensorResult(skip_reason=str(error))

    return sensor


def log_arrivals(context: dg.SensorEvaluationContext, state: State) -> dg.SensorResult:
    """New and changed days; a day that vanished from its source is told, and kept."""
    wanted: list[Request] = []
    vanished: list[str] = []
    for day in state.days:
        signature = ingest_signature(state.suite, day)
        made = state.ingested(day)
        if signature is None:
            if made is not None:
                vanished.append(day)
        elif (request := stale(Unit("ingest", day), made, signature)) is not None:
            wanted.append(request)
    told = f"vanished from a source, kept as they are: {listed(vanished)}" if vanished else ""
    return _asked(context, state, wanted, told)


def rubric_releases(context: dg.SensorEvaluationContext, state: State) -> dg.SensorResult:
    """One run for whatever differs; a content refused once is not asked for again until it changes."""
    request = release_request(state)
    if request is None:
        return dg.SensorResult(skip_reason="every rubric is as released")
    return _asked(context, state, [request], f"not as released: {listed(request.causes)}")


def stale_partitions(context: dg.SensorEvaluationContext, state: State) -> dg.SensorResult:
    """Shards, newest day first; then publications, oldest first, as each is compared with those before."""
    missing = [task for task in state.tasks if task not in state.judges]
    found = list(state.stale_units())
    ready = _settled(context, state, found)
    waiting = [request.unit.day for request in found if request not in ready]
    told = [
        f"no day is published until a rubric is released for {listed(missing)}" if missing else "",
        f"drift waits until the days before have settled: {listed(waiting)}" if waiting else "",
    ]
    shards = [request for request in ready if request.unit.kind == "judge"]
    publications = [request for request in reversed(ready) if request.unit.kind == "publish"]
    return _asked(context, state, [*shards, *publications], "; ".join(filter(None, told)))


def _settled(
    context: dg.SensorEvaluationContext, state: State, found: list[Request]
) -> list[Request]:
    """The stale units that need not wait for an earlier day to settle; one that is given up is not waited for."""
    if all(request.causes != (EARLIER,) for request in found):
        return found
    busy, busy_days = at_work(context.instance)
    given_up = decided_retries(context.instance, state).retries.given_up
    moving = {request.unit.day for request in found if request.causes != (EARLIER,)}
    moving -= {failure.unit.day for failure in given_up}
    # A publication of earlier days alone leaves its own scores as they are.
    publishing = {request.unit for request in found if request.causes == (EARLIER,)}
    moving |= busy_days | {unit.day for unit in busy - publishing}
    return settled(found, moving, state.suite.quality.window_days)


def failed_partitions(context: dg.SensorEvaluationContext, state: State) -> dg.SensorResult:
    """The failed units that are still wanted as they were, each when its time has come."""
    decided = decided_retries(context.instance, state).retries
    waiting = [f"{unit} at {_clock(due)}" for unit, due in decided.waiting.items()]
    told = [
        f"waiting for their time: {listed(waiting)}" if waiting else "",
        f"given up: {listed([f.unit for f in decided.given_up])}" if decided.given_up else "",
    ]
    return _asked(context, state, list(decided.now), "; ".join(filter(None, told)))


@dataclass(frozen=True)
class Decided:
    """The units whose latest run failed, and what becomes of those that are still wanted."""

    failing: Sequence[Failed]
    retries: Retries


def decided_retries(instance: dg.DagsterInstance, state: State) -> Decided:
    """Decide about every failed unit of the window, as of now."""
    automation = state.suite.automation
    since = state.now - dt.timedelta(days=automation.look_back_days)
    failed = failed_units(instance, since, mended=True)
    wanted = wanted_units(state, [failure.unit for failure in failed])

    def undone(failure: Failed) -> bool:
        request = wanted.get(failure.unit)
        return request is not None and request.signature == failure.signature

    if any(map(undone, failed)):
        failed = failed_units(instance, since)
    now = state.now.timestamp()
    decided = retries(
        failed,
        wanted,
        now,
        automation.attempts,
        automation.backoff,
        state.suite.zone,
        spent=all(f.counts for f in failed) or budget_spent(state.suite) is not None,
    )
    return Decided(list(filter(undone, failed)), decided)


def unresolved_records(context: dg.SensorEvaluationContext, state: State) -> dg.SensorResult:
    """Further rounds that were not asked for yet, where their evaluator answers. Who is down is probed seldom."""
    rounds = list(regenerations(state, state.days))
    used = asked_before(context.instance, rounds)
    able, _ = _able(context, state, [r for r in rounds if r.run_key not in used])
    free = _free(context, able)
    automation, now = state.suite.automation, state.now.timestamp()
    before = _probes_before(context.cursor)
    down: dict[str, Probes] = {}
    told = []
    for name, judge in {(j := state.judges[r.unit.task]).evaluator_name: j for r in free}.items():
        probes = before.get(name)
        due = 0.0 if probes is None else probes.due(automation.attempts, automation.backoff)
        if probes is not None and probes.last <= now < due:
            down[name] = probes
            told.append(f"{name} is probed again at {_clock(due)}")
            continue
        try:
            # An extra that only the workers have is nothing to be missed here.
            with suppress(MissingExtra):
                judge.backend.probe()
        except (EvaluatorOutage, EvaluatorRefused) as error:
            down[name] = Probes(1 if probes is None else probes.failed + 1, now)
            told.append(str(error))
    asked = [r for r in free if state.judges[r.unit.task].evaluator_name not in down]
    runs = [run_request(request) for request in asked[: automation.runs_a_tick]]
    cursor = json.dumps({name: [probes.failed, probes.last] for name, probes in down.items()})
    return _result(runs, "; ".join(told) or "nothing unresolved has a round to ask for", cursor)


def _probes_before(cursor: str | None) -> dict[str, Probes]:
    """The failed probes by evaluator; a cursor that cannot be read counts as none."""
    try:
        return {
            name: Probes(int(failed), float(last))
            for name, (failed, last) in json.loads(cursor or "{}").items()
        }
    except (ValueError, TypeError, AttributeError):
        return {}


def regenerations(state: State, days: Iterable[str]) -> Iterator[Request]:
    """One more round for each fresh shard of `days` that holds unresolved records and has rounds left."""
    for day in days:
        stale_now: set[Unit] | None = None
        for task in state.judges:
            for shard in shard_keys(state.suite):
                made = state.manifest(judge_manifest(state.suite, state.store, task, day, shard))
                if made is None or not made.figures.get("unresolved"):
                    continue
                number = int(made.figures.get("rounds", 0)) + 1
                if number > state.suite.automation.unresolved_rounds:
                    continue
                if stale_now is None:
                    stale_now = {request.unit for request in state.stale_on(day)}
                if Unit("judge", day, task, shard) in stale_now:
                    continue
                yield Request(
                    Unit("regenerate", day, task, shard),
                    ("unresolved records",),
                    f"{signature_hash(made.signature)} round {number}",
                    f"{made.made_by} {made.made_at}",
                    round=number,
                )


def release_request(state: State) -> Request | None:
    """The release of the rubrics as their files are now, or None where they are released so."""
    found, kept = {}, {}
    # With the number, since a rubric may come back that was released before.
    replaced = []
    for task in state.tasks:
        rubric = load_rubric(state.suite.path(state.suite.prompts) / task)
        found[task] = rubric.stamp
        kept[task] = release_state(state.store, task)
        replaced.append(f"{kept[task] or 'nothing'} ({release_number(state.store, task)})")
    differing = tuple(text for task, text in found.items() if kept[task] != text)
    if not differing:
        return None
    return Request(Unit("release"), differing, " ".join(found.values()), " ".join(replaced))


def wanted_units(state: State, among: Collection[Unit]) -> dict[Unit, Request]:
    """Every unit that is stale as of now on the days of `among`, and the release where that is one of them.

    Nothing is looked at where nothing failed, which is nearly every tick.
    """
    wanted: dict[Unit, Request] = {}
    if any(unit.kind == "release" for unit in among):
        release = release_request(state)
        if release is not None:
            wanted[release.unit] = release
    days = {unit.day for unit in among}
    for day in state.days:
        if day not in days:
            continue
        requests = [*state.stale_on(day), *regenerations(state, [day])]
        wanted |= {request.unit: request for request in requests}
        ingest = Unit("ingest", day)
        if ingest in among and (request := _wanted_ingest(state, ingest)) is not None:
            wanted[ingest] = request
    return wanted


def _wanted_ingest(state: State, unit: Unit) -> Request | None:
    try:
        signature = ingest_signature(state.suite, unit.day)
    except GavelError:
        # A source out of reach keeps nothing else from being tried again; `log_arrivals` tells of it.
        return None
    return None if signature is None else stale(unit, state.ingested(unit.day), signature)


def _able(
    context: dg.SensorEvaluationContext, state: State, requests: list[Request]
) -> tuple[list[Request], str]:
    """The requests that the loaded definitions can run, and a sentence on those that wait for a reload, if any."""
    if state.loaded is None:
        return requests, ""
    able = [request for request in requests if state.loaded.can_run(request.unit, state.suite)]
    units = [request.unit for request in requests if request not in able]
    if not units:
        return able, ""
    told = (
        f"{state.suite.file}: changed since the code location was loaded: "
        f"{', '.join(state.loaded.changes(state.suite))}; reload it (in the UI: Deployment > Reload), or restart "
        f"Dagster; until then these wait: {listed(units, 3)}"
    )
    context.log.warning(told)
    return able, told


def _free(context: dg.SensorEvaluationContext, able: list[Request]) -> list[Request]:
    """The requests whose unit no run is at work on."""
    return admitted(able, *at_work(context.instance)) if able else []


def _asked(
    context: dg.SensorEvaluationContext, state: State, requests: list[Request], told: str
) -> dg.SensorResult:
    able, to_reload = _able(context, state, requests)
    free = _free(context, able)[: state.suite.automation.runs_a_tick]
    runs = [run_request(request) for request in free]
    left = len(able) - len(runs)
    behind = (
        f"{left} of {len(requests)} wait for runs at work, or for the next tick" if left else ""
    )
    notes = [told, to_reload, behind]
    return _result(runs, "; ".join(filter(None, notes)) or "nothing to do")


def _result(runs: list[dg.RunRequest], told: str, cursor: str | None = None) -> dg.SensorResult:
    """A tick either asks or says why it does not; what it saw besides goes to the daemon's log."""
    if runs:
        return dg.SensorResult(run_requests=runs, cursor=cursor)
    return dg.SensorResult(skip_reason=told, cursor=cursor)


def _clock(time: float) -> str:
    return f"{dt.datetime.fromtimestamp(time, dt.UTC):%H:%M:%S} UTC"
