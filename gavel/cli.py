"""The command `gavel`: check the settings, explain a record's score, hand out and take in labels."""

from __future__ import annotations

import argparse
import os
import re
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gavel.alignment.files import FORMATS, place_for, read_file
from gavel.alignment.labels import check_labels, counts, sentences
from gavel.alignment.sheets import write_sheets
from gavel.benchmark.pairs import read_pairs
from gavel.errors import GavelError, LabelError, RubricError, StoreError
from gavel.fashion.simulate import Ground
from gavel.fashion.verify import read_decisions
from gavel.inference.vllm_offline import VLLMOffline
from gavel.judge.backends import judge_of
from gavel.judge.evaluate import Judge
from gavel.judge.opinions import check_escalation
from gavel.judge.prompts import Prompts
from gavel.judge.releases import drift, drift_sentence, released_rubric
from gavel.judge.rubric import load_rubric
from gavel.judge.tables import score_schema
from gavel.logs.sources import check_source
from gavel.publishing import warehouse_of
from gavel.report.record import Trace, prompts_sent, trace
from gavel.settings.trust import PAIRWISE
from gavel.store.bucket import shown
from gavel.store.files import Store, check_folder, replacing
from gavel.suite import Suite, load_suite

_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; an error meant for people is printed as its sentence, without a traceback."""
    parser = argparse.ArgumentParser(prog="gavel", description=__doc__)
    parser.add_argument("--suite", help="the suite file (default: $GAVEL_SUITE, else ./suite.yaml)")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser(
        "check",
        help="read suite.yaml, every rubric and the first rows of every source, and say what is wrong",
    )
    explain = commands.add_parser("explain", help="show the whole way of one record to its score")
    explain.add_argument("row_id", help="32 hex digits, as in the column row_id")
    explain.add_argument("--day", default="*", help="such as 2026-11-02 (default: the newest)")
    sheets = commands.add_parser(
        "sheets", help="write what annotators fill in, of alignment/sample"
    )
    sheets.add_argument("folder", help="where to write the sheets and the tasks for Label Studio")
    labels = commands.add_parser("labels", help="check filled-in label files, and take them in")
    labels.add_argument(
        "files", nargs="+", help="CSV, JSON lines, JSON of Label Studio, or Parquet"
    )
    labels.add_argument("--check", action="store_true", help="only say what is wrong with them")
    chosen = parser.parse_args(arguments)

    def command() -> int:
        suite = load_suite(chosen.suite)
        if chosen.command == "check":
            _check(suite)
        elif chosen.command == "sheets":
            _sheets(suite, Path(chosen.folder))
        elif chosen.command == "labels":
            return _labels(suite, [Path(name) for name in chosen.files], chosen.check)
        else:
            _explain(suite, chosen.row_id, chosen.day)
        return 0

    return told_plainly("gavel", command)


def told_plainly(name: str, command: Callable[[], int]) -> int:
    """Run `command`; an error meant for people becomes its sentence and exit code 2, a closed pipe 141."""
    try:
        code = command()
        sys.stdout.flush()
    except GavelError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # Whoever read has left, and the interpreter would complain once more when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return code


def _check(suite: Suite) -> None:
    store = Store(suite.path(suite.store))
    check_folder(store.root)
    if suite.dataset is None:
        check_folder(suite.path(suite.warehouse).parent)
    if suite.benchmark.pairs is not None:
        folder = suite.path(suite.prompts) / "benchmark" / PAIRWISE
        Prompts(load_rubric(folder), str(folder)).check_fenced()
        questions = read_pairs(suite.path(suite.benchmark.pairs)).num_rows
        print(f"pairs: {questions:,} questions, two a pair")
    for evaluator in suite.evaluators.values():
        if evaluator.backend == "vllm_offline":
            VLLMOffline(evaluator).probe()
    warehouse = warehouse_of(suite)
    for task in suite.task_names():
        folder = suite.path(suite.prompts) / task
        rubric = load_rubric(folder)
        prompts = Prompts(rubric, str(folder))
        prompts.check_fenced()
        if drifted := drift(store, rubric):
            raise RubricError(f"{folder}: {drift_sentence(rubric, drifted)}")
        settings = suite.settings_of(task)
        check_escalation(rubric, settings)
        warehouse.admit(task, score_schema(rubric, pa.schema([])))
        name, evaluator = suite.evaluator_of(task)
        print(
            f"{task}: version {rubric.version}, {len(rubric.dimensions)} dimensions, "
            f"{len(rubric.label_values)} labels, prompt of {len(prompts.system):,} characters, "
            f"judged by {name} ({evaluator.backend}, {evaluator.model})"
            + (f", and by {', '.join(settings.others)}" if settings.others else "")
        )
    for source in suite.sources:
        days, columns = check_source(source, suite)
        files = f"files of {days[0]} to {days[-1]}, {len(days)} in all" if days else "files found"
        taken = ", ".join(
            f"{field} from {' or '.join(names)}"
            for field, names in columns.items()
            if names != [field]
        )
        print(f"{source.name}: {files}" + (f"; {taken}" if taken else ""))
    if suite.fashion is not None:
        ground = Ground(suite, suite.fashion)
        _ = ground.prompts
        if suite.fashion.decisions is not None:
            read_decisions(suite.path(suite.fashion.decisions))
        for language, model in suite.fashion.bertscore.models.items():
            if not suite.path(model).is_dir():
                print(
                    f"fashion.bertscore.models.{language}: {suite.path(model)} is no folder; {model!r} is "
                    "taken for a model's name, which is downloaded"
                )
        print(
            f"fashion: {len(ground.vocabulary.attribute_of)} values, {len(ground.vocabulary.themes)} themes, "
            f"{len(suite.fashion.customers)} customers, systems {', '.join(suite.fashion.systems)}"
        )
    print(f"{shown(suite.file)}: is in order")


def _sheets(suite: Suite, folder: Path) -> None:
    store = Store(suite.path(suite.store))
    sample = pq.read_table(store.existing("alignment/sample"))
    for path in write_sheets(suite, store, sample, folder):
        print(path)


def _labels(suite: Suite, files: Sequence[Path], only_check: bool) -> int:
    """Say what is wrong with label files and copy them to the suite's folder; 1 where none is usable."""
    store = Store(suite.path(suite.store))
    folder = suite.path(suite.alignment.labels)
    usable = 0
    for path in files:
        if path.suffix not in FORMATS:
            raise LabelError(f"{path}: is no label file; accepted: {', '.join(FORMATS)}")
        table = check_labels(suite, store, list(read_file(path, suite.alignment.columns)))
        for sentence in sentences(table):
            print(sentence)
        counted = counts(table)
        usable += counted["usable"]
        print(f"{path}: {counted['usable']:,} labels usable, {counted['rejected']:,} rejected")
        if not only_check and counted["usable"]:
            target = place_for(path, folder, suite.alignment.columns)
            known = " in the place of the one that was there" if target.exists() else ""
            with replacing(target) as temporary:
                temporary.write_bytes(path.read_bytes())
            print(
                f"taken in as {target}{known}; the sensor `labels` or the job measure_alignment measures by it"
            )
    return 0 if usable else 1


def _explain(suite: Suite, row_id: str, day: str) -> None:
    store, warehouse = Store(suite.path(suite.store)), warehouse_of(suite)
    found = trace(store, row_id, suite.shards, day)
    print(
        f"row_id {found.row_id}, day {found.day}" + (f", task {found.task}" if found.task else "")
    )
    for other in found.others:
        print(f"the same row_id stands at {other}")
    if found.source is not None:
        _heading(f"Source row: {_harmless(found.source['file'])}, line {found.source['line']}")
        print(_indented(found.source["content"].decode("utf-8", "replace")))
    if found.rejected is not None:
        _heading(f"Rejected: {', '.join(found.rejected['reasons'])}")
        print("It is no record, so it was not judged.")
        return
    _heading("Record")
    _facts(found.record or {})
    _attempts(suite, store, found)
    _heading("Score")
    if found.score is None:
        print(f"not scored yet: materialise {found.task}/scores for {found.day}")
    else:
        judged = released_rubric(store, str(found.task)).columns
        names = [*judged, "score", "score_normalised", "status", "attempts", "regenerated"]
        names += ["tier", "escalated", "votes", "disagreement"]
        _facts({name: found.score.get(name) for name in names})
    _heading("Publication")
    try:
        days = warehouse.published(str(found.task), found.row_id)
    except StoreError as error:
        print(f"not known: {error}")
    else:
        print(f"published under {', '.join(days)}" if days else "not published")


def _attempts(suite: Suite, store: Store, found: Trace) -> None:
    if not found.attempts:
        _heading("Verdicts")
        print(f"not judged yet: materialise {found.task}/verdicts for {found.day}")
        return
    task = str(found.task)
    rubric = released_rubric(store, task)

    @cache
    def judge(name: str) -> Judge:
        return judge_of(suite, task, rubric, name if name in suite.evaluators else None)

    shard = found.attempts[0]
    _heading(f"Shard {shard['shard']}, row {shard['shard_row']}")
    sent = prompts_sent(judge, found)
    for row, (messages, same) in zip(found.attempts, sent, strict=True):
        of = "" if row["evaluator"] == shard["evaluator"] else f" of {row['evaluator']}"
        _heading(f"Attempt {row['attempt']}{of}: {row['status']}")
        note = (
            ""
            if same
            else " (rubric or settings have changed since: this is what would be sent now)"
        )
        for role, text in messages:
            print(f"{role} message{note}:\n{_indented(text)}")
        print(f"raw response:\n{_indented(row['raw_response'] or '(none)')}")
        _facts({k: v for k, v in row.items() if k not in ("raw_response", "row_id")})


def _heading(text: str) -> None:
    print(f"\n== {text}")


def _facts(facts: Mapping[str, Any]) -> None:
    for name, value in facts.items():
        if value is not None:
            print(f"  {name}: {_harmless(str(value))}")


def _indented(text: str) -> str:
    return textwrap.indent(_harmless(text), "    ")


def _harmless(text: str) -> str:
    """`text` without what a terminal would obey: control characters and changes of direction are spelt out."""
    return _OBEYED.sub(lambda hit: hit[0].encode("unicode_escape").decode(), text)


if __name__ == "__main__":
    sys.exit(main())
