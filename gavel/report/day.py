"""Gathering a day for its page: the accounting of every table, and each task's figures."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gavel.judge.releases import released_rubric
from gavel.judge.rubric import Rubric
from gavel.report.page import DayReport, Equality, RecordReport, TaskReport, render_record
from gavel.report.quality import warnings
from gavel.report.record import trace
from gavel.store.files import Store
from gavel.store.tables import count_reasons, count_rows, fetch, quoted, row_count
from gavel.suite import Suite

_VERSIONS = ("gavel", "dagster", "duckdb", "pyarrow")


def day_report(suite: Suite, store: Store, day: str, tasks: Sequence[str]) -> DayReport:
    """All that the page of `day` shows, read from the tables of that day.

    Raises:
        StoreError: a table of the day is missing.
    """
    raw, rejected = store.existing("logs/raw", day), store.existing("logs/rejected", day)
    reports = [_task_report(suite, store, day, task) for task in tasks]
    return DayReport(
        suite=suite.name,
        day=day,
        generated_at=dt.datetime.now(dt.UTC),
        settings=suite.quality,
        raw=row_count(raw),
        rejected=row_count(rejected),
        reasons=count_reasons([rejected]),
        equalities=accounting(suite, store, day, tasks),
        tasks=reports,
        warnings={
            **_rejection_warnings(suite, row_count(raw), row_count(rejected)),
            **{
                moved: sentence
                for report in reports
                for moved, sentence in warnings(report.quality, suite.quality).items()
            },
        },
        versions={name: version(name) for name in _VERSIONS},
    )


def _rejection_warnings(suite: Suite, raw: int, rejected: int) -> dict[str, str]:
    """The sentence on rejected rows, where they are more than the suite expects."""
    bound = suite.quality.max_rejected_rate
    if not raw or rejected / raw <= bound:
        return {}
    share = f"{rejected:,} of {raw:,} source rows ({rejected / raw:.1%})"
    return {"rejected_rate": f"{share} were rejected; at most {bound:.1%} are expected."}


def accounting(suite: Suite, store: Store, day: str, tasks: Sequence[str]) -> list[Equality]:
    """The five equalities of a day, each for its whole scope; nothing is lost where all hold."""

    def rows(table: str, shard: str | None = None) -> int:
        return row_count(store.existing(table, day, shard))

    shards = [str(shard) for shard in range(suite.shards)]

    def total(table: str) -> int:
        return sum(rows(table, shard) for shard in shards)

    clean = rows("logs/clean")
    found = [
        Equality("raw = clean + rejected", "day", rows("logs/raw"), [clean, rows("logs/rejected")])
    ]
    by_task = [total(f"{task}/shards") for task in tasks]
    found.append(Equality("clean = sum of shards over tasks", "day", clean, by_task))
    for task, records in zip(tasks, by_task, strict=True):
        verdicts = [store.existing(f"{task}/verdicts", day, shard) for shard in shards]
        again = [store.existing(f"{task}/regenerated", day, shard) for shard in shards]
        valid, invalid = count_rows(verdicts, "status = 'valid'"), total(f"{task}/invalid")
        repaired = count_rows(again, "status = 'valid'")
        scores = store.existing(f"{task}/scores", day)
        unresolved = count_rows([scores], "status = 'unresolved'")
        became, statement = [repaired, unresolved], "invalid = repaired + unresolved"
        if suite.settings_of(task).others:
            became = [repaired, unresolved, _decided_by_others(scores, verdicts, again)]
            statement = "invalid = repaired + unresolved + decided by other evaluators"
        found += [
            Equality("shard = valid + invalid", task, records, [valid, invalid]),
            Equality(statement, task, invalid, became),
            Equality("scores = clean", task, row_count(scores), [records]),
        ]
    return found


def _decided_by_others(scores: Path, verdicts: Sequence[Path], again: Sequence[Path]) -> int:
    """How many valid scores the task's own evaluator has no valid verdict on."""
    return int(
        fetch(f"""
            SELECT count(*) FROM read_parquet({quoted(scores)}) s
            ANTI JOIN (
                SELECT row_id FROM read_parquet({quoted(*verdicts, *again)}) WHERE status = 'valid'
            ) v USING (row_id)
            WHERE status = 'valid'
        """)[0][0]
    )


def record_pages(suite: Suite, store: Store, day: str, task: str) -> Iterator[tuple[str, str]]:
    """The (row_id, HTML page) of the records most worth a look, as many as the suite asks for."""
    rubric = released_rubric(store, task)
    for row_id, _ in _worth_a_look(suite, store, day, task):
        found = trace(store, row_id, suite.shards, day)
        assert found.record is not None, "it has a score"
        source = (
            None if found.source is None else found.source["content"].decode("utf-8", "replace")
        )
        yield (
            row_id,
            render_record(
                RecordReport(
                    suite=suite.name,
                    day=day,
                    task=task,
                    row_id=row_id,
                    source_row=source,
                    record=found.score or found.record,
                    attempts=found.attempts,
                    judged=rubric.columns,
                )
            ),
        )


def _worth_a_look(suite: Suite, store: Store, day: str, task: str) -> list[tuple[str, str]]:
    """(row_id, remark): unresolved records first, then the lowest scores."""
    scores = store.existing(f"{task}/scores", day)
    return fetch(
        f"""
        SELECT row_id, CASE status WHEN 'valid' THEN format('{{:.2f}}', score) ELSE status END
        FROM read_parquet({quoted(scores)})
        ORDER BY status = 'valid', score, row_id LIMIT {suite.quality.record_pages}
        """
    )


def _task_report(suite: Suite, store: Store, day: str, task: str) -> TaskReport:
    rubric = released_rubric(store, task)
    asked = [suite.evaluator_of(task)[0], *suite.settings_of(task).others]
    return TaskReport(
        task=task,
        quality=pq.read_table(store.existing(f"{task}/quality", day)),
        trailing=_trailing(suite, store, day, task),
        nesting={
            label.name: (label.nested, label.parents) for label in rubric.labels if label.nested
        },
        baseline=all(suite.evaluators[name].backend == "heuristic" for name in asked),
        provenance=_provenance(store.existing(f"{task}/scores", day), rubric),
        record_pages=[
            (row_id, f"{day}/{row_id}.html", remark)
            for row_id, remark in _worth_a_look(suite, store, day, task)
        ],
    )


def _trailing(suite: Suite, store: Store, day: str, task: str) -> list[tuple[str, pa.Table]]:
    earlier = []
    for back in range(suite.quality.window_days, 0, -1):
        date = (dt.date.fromisoformat(day) - dt.timedelta(days=back)).isoformat()
        path = store.table(f"{task}/quality", date)
        if path.exists():
            earlier.append((date, pq.read_table(path)))
    return earlier


def _provenance(scores: Path, rubric: Rubric) -> Mapping[str, str | Sequence[str]]:
    """What made the scores, as their rows say; more than one value where the day was judged in parts."""
    columns = (
        "evaluator",
        "model",
        "model_revision",
        "prompt_version",
        "rubric_hash",
        "config_hash",
        "run_id",
    )
    row = fetch(
        f"SELECT {', '.join(f'list_sort(list(DISTINCT {name}))' for name in columns)} "
        f"FROM read_parquet({quoted(scores)})"
    )[0]
    found = {name: values or [] for name, values in zip(columns, row, strict=True)}
    return {"rubric": f"{rubric.task} {rubric.version} ({rubric.hash})", **found}
