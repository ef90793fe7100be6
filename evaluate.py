"""Evaluate days from the command line, in this process, on the instance that the Dagster UI shows."""

from __future__ import annotations

import argparse
import datetime as dt
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import dagster as dg

from assets.alignment import ALIGN
from assets.benchmark import BENCHMARK, RECORDS, TABULATE, VERDICTS
from assets.dialogue import EVALUATE, PAGES, RANK, RESULTS, SYSTEMS
from assets.fashion import LANGUAGE, TRANSLATE, fashion_steps
from assets.fashion import MAKE as MAKE_FASHION
from assets.jobs import RELEASE, steps_of_a_day
from assets.pairwise import COMPARE, comparers
from assets.processes import end_abandoned_runs, process_tags
from gavel.cli import told_plainly
from gavel.dialogue.results import systems
from gavel.errors import SuiteError
from gavel.report.summary import fashion_standings, side_by_side, standings, summary
from gavel.store.files import Store
from gavel.suite import SUITE_VARIABLE, Suite, load_suite

_INTERRUPTIONS = ("KeyboardInterrupt", "DagsterExecutionInterruptedError")

# Every sentence a person needs is printed here; Dagster's own log of each run is in the UI.
_QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def main(arguments: Sequence[str] | None = None) -> int:
    """Evaluate the days named, or all of the suite's, and print what happened."""
    parser = argparse.ArgumentParser(prog="gavel-evaluate", description=__doc__)
    parser.add_argument(
        "days", nargs="*", help="days such as 2026-11-02; none: every day of the suite"
    )
    parser.add_argument("--suite", help="the suite file (default: $GAVEL_SUITE, else ./suite.yaml)")
    parser.add_argument(
        "--benchmark",
        action="store_true",
        help="instead of evaluating days, hold every evaluator side by side on the labelled records",
    )
    chosen = parser.parse_args(arguments)
    home = Path(os.environ.get("DAGSTER_HOME") or "")
    if not home.is_absolute() or not home.is_dir():
        print(
            f"gavel-evaluate: DAGSTER_HOME is {os.environ.get('DAGSTER_HOME', '')!r}; accepted: the absolute path "
            "of a folder, such as the one `make setup` makes: export DAGSTER_HOME=$PWD/.dagster",
            file=sys.stderr,
        )
        return 2
    # An interruption in the middle of a request would show as a traceback of its event loop.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL + 1)
    try:
        if chosen.benchmark:
            return told_plainly("gavel-evaluate", lambda: _benchmark(chosen.suite, chosen.days))
        return told_plainly("gavel-evaluate", lambda: _evaluate(chosen.suite, chosen.days))
    except (KeyboardInterrupt, dg.DagsterExecutionInterruptedError):
        print(
            "\ngavel-evaluate: interrupted; what was done is kept, and the same command goes on from there",
            file=sys.stderr,
        )
        return 130


def _evaluate(suite_file: str | None, named: Sequence[str]) -> int:
    suite = load_suite(suite_file)
    os.environ[SUITE_VARIABLE] = str(suite.file)
    with dg.DagsterInstance.get() as instance:
        end_abandoned_runs(instance)
    done: list[str] = []
    failures: list[str] = []
    sent = 0
    for day in _checked_days(suite, named):
        print(f"{day} ", end="", flush=True)
        failed, asked = run_steps(steps_of_a_day(suite, day))
        sent += asked
        if failed:
            failures.append(failed)
        else:
            done.append(day)
        print(" failed" if failed else " done")
    store = Store(suite.path(suite.store))
    if done:
        print(summary(suite, store, done, sent))
    if suite.dialogue is not None:
        failures += evaluate_dialogue_systems(suite)
        print(standings(suite, store))
    if suite.fashion is not None:
        print("\nfashion ", end="", flush=True)
        failed_here = evaluate_fashion(suite)
        print(" failed" if failed_here else " done")
        failures += failed_here
        if store.table("fashion/leaderboard").exists():
            print(fashion_standings(suite, store))
    for failed in failures:
        print(failed, file=sys.stderr)
    return 1 if failures else 0


def _benchmark(suite_file: str | None, named: Sequence[str]) -> int:
    suite = load_suite(suite_file)
    os.environ[SUITE_VARIABLE] = str(suite.file)
    if named:
        raise SuiteError(
            f"--benchmark takes no day, found {named[0]!r}: it is over the labelled records of all days; "
            "evaluate the day first, without --benchmark"
        )
    failures = _run_each(RELEASE, [None]) or _run_each(ALIGN, [None])
    # The table once, after all of them.
    failures += _run_each(BENCHMARK, suite.benchmarked(), [RECORDS, VERDICTS])
    failures += _run_each(TABULATE, [None])
    if suite.benchmark.pairs is not None:
        failures += _run_each(COMPARE, comparers(suite))
    print(side_by_side(suite, Store(suite.path(suite.store))))
    for failed in failures:
        print(failed, file=sys.stderr)
    return 1 if failures else 0


def run_steps(steps: Sequence[tuple[str, str | None]]) -> tuple[str | None, int]:
    """Run every step, a job and its partition, in order.

    Returns what stopped it, in a sentence, if anything did, and the requests sent.
    """
    sent = 0
    with dg.DagsterInstance.get() as instance:
        for name, partition in steps:
            failed, asked = _run(instance, name, partition)
            sent += asked
            if failed is not None:
                return failed, sent
            print(".", end="", flush=True)
    return None, sent


def _run(
    instance: dg.DagsterInstance,
    name: str,
    partition: str | None,
    assets: Sequence[dg.AssetKey] | None = None,
) -> tuple[str | None, int]:
    """Run a job, or only `assets` of it; return why it failed, in a sentence, if it did, and the requests sent."""
    from definitions import defs

    result = defs.resolve_job_def(name).execute_in_process(
        instance=instance,
        partition_key=partition,
        asset_selection=assets,
        raise_on_error=False,
        run_config=_QUIET,
        tags=process_tags(),
    )
    if result.success:
        return None, _sent(result)
    where = name if partition is None else f"{name}, partition {partition}"
    return f"{where}: {_why(result)}", _sent(result)


def evaluate_fashion(suite: Suite) -> list[str]:
    """Make the fashion data, evaluate every system, rank them; return why some could not be, a sentence each."""
    failures: list[str] = []
    without: set[str] = set()
    for job, partition in fashion_steps(suite):
        # Nobody is evaluated on conversations that could not be made anew.
        if isinstance(partition, dg.MultiPartitionKey) and (
            partition.keys_by_dimension[LANGUAGE] in without
        ):
            continue
        failed, _ = run_steps([(job, partition)])
        if failed is not None:
            failures.append(failed)
            if job == MAKE_FASHION:
                break
            if job == TRANSLATE and partition is not None:
                without.add(partition)
    return failures


def evaluate_dialogue_systems(suite: Suite) -> list[str]:
    """Evaluate every system of the dialogue benchmark; return why some could not be, a sentence each."""
    assert suite.dialogue is not None, "there is a benchmark"
    found, failures = systems(suite, suite.dialogue)
    with dg.DagsterInstance.get() as instance:
        instance.add_dynamic_partitions(str(SYSTEMS.name), found)
    # The leaderboard once, after all of them.
    failures += _run_each(EVALUATE, found, [RESULTS, PAGES])
    return failures + _run_each(RANK, [None])


def _run_each(
    name: str,
    partitions: Sequence[str | None],
    assets: Sequence[dg.AssetKey] | None = None,
) -> list[str]:
    """Run a job, or only `assets` of it, for each partition; return why some failed, a sentence each."""
    with dg.DagsterInstance.get() as instance:
        results = [_run(instance, name, partition, assets) for partition in partitions]
    return [failed for failed, _ in results if failed is not None]


def _sent(result: dg.ExecuteInProcessResult) -> int:
    events = (
        event.step_materialization_data for event in result.get_asset_materialization_events()
    )
    found = (event.materialization.metadata.get("requests_sent") for event in events)
    return sum(
        int(value.value)
        for value in found
        if isinstance(value, dg.IntMetadataValue) and value.value
    )


def _why(result: dg.ExecuteInProcessResult) -> str:
    """What stopped a run: the sentences of the checks that failed, else the error of the step."""
    failed = [
        f"{check.asset_key.to_user_string()}: {check.check_name}: {check.description}"
        for check in result.get_asset_check_evaluations()
        if not check.passed and check.severity is dg.AssetCheckSeverity.ERROR
    ]
    if failed:
        return "\n".join(failed)
    for event in result.all_events:
        if event.is_step_failure and event.step_failure_data.user_failure_data is not None:
            return str(event.step_failure_data.user_failure_data.description)
        if event.is_step_failure and (error := event.step_failure_data.error) is not None:
            if error.cls_name in _INTERRUPTIONS:
                raise KeyboardInterrupt
            return (error.cause or error).message.strip()
    return "no step says why; see the run in the UI"


def _checked_days(suite: Suite, named: Sequence[str]) -> list[str]:
    """The days to evaluate, each once, in order. Raises SuiteError where one is none of the suite's."""
    known = _every_day(suite)
    if not known:
        raise SuiteError(
            f"{suite.file}: first_day {suite.first_day} is after the last complete day: no day to evaluate"
        )
    for day in named:
        if day not in known:
            raise SuiteError(
                f"{day!r} is no day of {suite.file}; accepted: {known[0]} to {known[-1]}, written so"
            )
    return sorted(set(named)) or known


def _every_day(suite: Suite) -> list[str]:
    yesterday = dt.datetime.now(suite.zone).date() - dt.timedelta(days=1)
    last = min(suite.last_day or yesterday, yesterday)
    count = (last - suite.first_day).days + 1
    return [(suite.first_day + dt.timedelta(days=ahead)).isoformat() for ahead in range(count)]


if __name__ == "__main__":
    sys.exit(main())
