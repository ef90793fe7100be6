"""The daily figures of one task: scores, drift, validity, operations; a tidy table.

One row a figure. `field` is the dimension, label or `score` it is about; `key` the bin, class,
fault code, language or percentile; `value` the figure, null where it is undefined, and then `note`
says why; `n` how many records, verdicts or answers `value` is computed over: its denominator.

figure               field            key       value
-------------------  ---------------  --------  ---------------------------------------------------
records                                         rows of `scores`
valid, invalid                                  verdicts of the first attempt, by status
repaired                                        invalid at first, valid when the same evaluator was asked again
unresolved                                      status unresolved in `scores`
invalid_rate                                    invalid / verdicts of the first attempt
unresolved_rate                                 unresolved / records
recovery_rate                                   repaired / invalid
fault_count, _rate                    code      first verdicts with that fault, and their share
mean, sd, min, p05,  dimension,                 over the valid records; sd with n - 1; quantiles
p25 .. p95, max      score                      exact, interpolated between neighbours
share                dimension,       bin       share of the records with a value; `bins` says which
                     score                      value falls where
share                label            class     the same
trailing_mean,       as above         as above  the same over the trailing window, pooled
trailing_share
psi, effect,         dimension,                 day against window (`gavel.agreement.drift`): effect
p_value              score, label               is Cliff's delta for numbers, Cramer's V for labels
mean_by_language,    score            value     mean score of the records of that language, version
mean_by_agent_...
answers                                         distinct (request_hash, attempt), every attempt
saved                                           verdicts of every attempt - answers
retries                               kind      tries repeated for that reason; key null: all
retry_rate                                      answers repeated at least once / answers
prompt_tokens, completion_tokens, cost_usd      sums over the answers that report them
latency_ms                            p50 ..    of the last try of an answer, milliseconds
answers_per_second                              answers per second of evaluation time: the time
                                                between first and last answer, without the pauses
                                                beyond `PAUSE` (the time between runs)
records_per_second                              answers_per_second * records / answers

Where a task asks other evaluators, the rows of `gavel.report.tiers` follow.
"""

from __future__ import annotations

import datetime as dt
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gavel.agreement.drift import (
    Shift,
    Stability,
    label_shift,
    pool_sparse,
    population_stability_index,
    two_sample,
)
from gavel.settings.operation import Quality
from gavel.store.tables import session

SCHEMA = pa.schema(
    [
        ("task", pa.string()),
        ("day", pa.string()),
        ("figure", pa.string()),
        ("field", pa.string()),
        ("key", pa.string()),
        ("value", pa.float64()),
        ("n", pa.int64()),
        ("note", pa.string()),
    ]
)

SCORE = "score"
"""The name of the aggregate score among the dimensions."""

PAUSE = 60.0
"""Seconds without any answer that end a stretch of evaluation time."""

QUANTILES = {"p05": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95}
LATENCIES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}

Counts = dict[str, dict[Any, int]]
Row = tuple[str, str | None, str | None, float | None, int, str | None]


def quality(
    task: str,
    day: str,
    dimensions: Sequence[tuple[str, float, float]],
    labels: Sequence[str],
    scores_path: Path,
    verdict_paths: Sequence[Path],
    regenerated_paths: Sequence[Path],
    trailing_scores_paths: Mapping[str, Path],
    settings: Quality,
    opinion_paths: Sequence[Path] = (),
    more: Iterable[Row] = (),
) -> pa.Table:
    """All figures of `task` on `day` (YYYY-MM-DD), as `SCHEMA`; what each is, this module says.

    `dimensions` are (name, minimum, maximum). Of `trailing_scores_paths`, keyed by day, those of
    the `settings.window_days` days before `day` are pooled as the reference; dimensions and labels
    that they lack count as not judged then. `opinion_paths` are the verdicts of other evaluators than
    the task's own: answers and costs are over them too, validity is not. `more` rows are added at the end.
    """
    bounds = {name: (low, high) for name, low, high in dimensions}
    if dimensions:
        bounds[SCORE] = (min(d[1] for d in dimensions), max(d[2] for d in dimensions))
    window = _window(day, trailing_scores_paths, settings.window_days)
    with session() as db:
        _load_scores(db, "scores", [scores_path], bounds, labels)
        _load_scores(db, "earlier", list(window.values()), bounds, labels)
        _load_verdicts(db, [*verdict_paths, *regenerated_paths], opinion_paths)
        rows = [
            *_validity(db),
            *_distributions(db, bounds, labels, _about(db, list(window))),
            *_groups(db),
            *_operations(db),
            *more,
        ]
    columns = list(zip(*rows, strict=True))
    return pa.table([[task] * len(rows), [day] * len(rows), *map(list, columns)], schema=SCHEMA)


def bins(low: float, high: float, whole: bool) -> dict[str, float]:
    """The bins of a scale from `low` to `high`: name to lower edge, ascending.

    A bin holds its lower edge and ends before the next bin's. A scale of three to eleven whole
    steps has a bin around each step (1, 2, .. 5) where values are `whole`, and two bins between
    steps where they are not; any other scale has ten bins of equal width.
    """
    steps = high - low
    if float(low).is_integer() and float(high).is_integer() and 2 <= steps <= 10:
        if whole:
            return {f"{step}": step - 0.5 for step in range(int(low), int(high) + 1)}
        edges = np.linspace(low, high, int(steps) * 2 + 1)
    else:
        edges = np.linspace(low, high, 11)
    return {f"{a:.4g} to {b:.4g}": float(a) for a, b in pairwise(edges)}


def warnings(table: pa.Table, settings: Quality) -> dict[str, str]:
    """What of one `quality` table a person should know, in plain sentences by what moved, gravest first.

    What moved is the task and the field, without figures: it stays the same when more rows come late.

    A field has drifted when its PSI is beyond `settings.max_psi` and its p-value below
    `settings.alpha`: large enough to matter, and not by chance.
    """
    figures = Figures(table)
    task = table.column("task")[0].as_py()
    sentences = {}
    rate, records = figures.value("invalid_rate"), figures.n("invalid_rate")
    if rate is not None and rate > settings.max_invalid_rate:
        faults = figures.keyed("fault_count")
        worst = max(faults, key=lambda code: faults[code] or 0.0)
        sentences[f"{task} invalid_rate"] = (
            f"{task}: {rate:.1%} of {records:,} verdicts were invalid at the first attempt "
            f"(at most {settings.max_invalid_rate:.1%} expected), most often {worst}."
        )
    for field in figures.drifted(settings):
        moved = (
            f"PSI {figures.value('psi', field):.2f}, effect {figures.value('effect', field):+.2f}, "
            f"p {_p_value(figures.value('p_value', field))}; {figures.note('psi', field)}"
        )
        before, now = figures.value("trailing_mean", field), figures.value("mean", field)
        if before is not None and now is not None:
            sentences[f"{task} drift {field}"] = (
                f"{task}: {field} moved from a mean of {before:.2f} to {now:.2f} ({moved})."
            )
        else:
            name, old, new = _largest_move(figures, field)
            sentences[f"{task} drift {field}"] = (
                f"{task}: the mix of {field} changed, most of all {name} "
                f"from {old:.1%} to {new:.1%} ({moved})."
            )
    return sentences


class Figures:
    """A `quality` table for look-up: a figure that is not there reads as None, n as 0."""

    def __init__(self, table: pa.Table) -> None:
        self._rows: dict[tuple[str, str | None, str | None], dict[str, Any]] = {
            (row["figure"], row["field"], row["key"]): row for row in table.to_pylist()
        }

    def value(self, figure: str, field: str | None = None, key: str | None = None) -> float | None:
        """The value of one figure."""
        return self._rows.get((figure, field, key), {}).get("value")

    def n(self, figure: str, field: str | None = None, key: str | None = None) -> int:
        """The denominator of one figure."""
        return int(self._rows.get((figure, field, key), {}).get("n", 0))

    def note(self, figure: str, field: str | None = None, key: str | None = None) -> str | None:
        """The note of one figure."""
        return self._rows.get((figure, field, key), {}).get("note")

    def keyed(self, figure: str, field: str | None = None) -> dict[str | None, float | None]:
        """The values of one figure by key, in the table's order."""
        return {
            key: row["value"]
            for (name, about, key), row in self._rows.items()
            if (name, about) == (figure, field)
        }

    def fields(self, figure: str) -> list[str]:
        """The fields that have one figure, in the table's order."""
        return list(
            dict.fromkeys(
                field for name, field, _ in self._rows if name == figure and field is not None
            )
        )

    def drifted(self, settings: Quality) -> list[str]:
        """The fields that moved beyond `settings`, largest PSI first."""
        moved = {}
        for field in self.fields("psi"):
            psi, p = self.value("psi", field), self.value("p_value", field)
            if psi is not None and p is not None and psi > settings.max_psi and p < settings.alpha:
                moved[field] = psi
        return sorted(moved, key=lambda field: -moved[field])


def _p_value(p: float | None) -> str:
    return "< 0.001" if p is not None and p < 0.001 else f"= {p:.3f}"


def _largest_move(figures: Figures, field: str) -> tuple[str | None, float, float]:
    now, before = figures.keyed("share", field), figures.keyed("trailing_share", field)
    moves = [(key, before.get(key) or 0.0, now.get(key) or 0.0) for key in {**before, **now}]
    return max(moves, key=lambda move: abs(move[2] - move[1]))


def _window(day: str, paths: Mapping[str, Path], days: int) -> dict[str, Path]:
    first = (dt.date.fromisoformat(day) - dt.timedelta(days=days)).isoformat()
    return {other: paths[other] for other in sorted(paths) if first <= other < day}


def _load_scores(
    db: duckdb.DuckDBPyConnection,
    name: str,
    paths: Sequence[Path],
    dimensions: Iterable[str],
    labels: Iterable[str],
) -> None:
    """Create table `name` of the columns that the figures need; a column no file has is null."""
    wanted = {
        **dict.fromkeys([*dimensions, SCORE], "DOUBLE"),
        **dict.fromkeys(
            [
                *labels,
                "row_id",
                "status",
                "language",
                "agent_version",
                "rubric_hash",
                "config_hash",
            ],
            "VARCHAR",
        ),
    }
    there = {column for path in paths for column in pq.read_schema(path).names}
    columns = ", ".join(
        f"{_identifier(column) if paths and column in there else 'NULL'}::{kind} AS {_identifier(column)}"
        for column, kind in wanted.items()
    )
    if paths:
        db.execute(
            f"CREATE TABLE {name} AS SELECT {columns} FROM read_parquet(?, union_by_name = true)",
            [[str(path) for path in paths]],
        )
    else:
        db.execute(f"CREATE TABLE {name} AS SELECT {columns} LIMIT 0")


def _load_verdicts(
    db: duckdb.DuckDBPyConnection, own: Sequence[Path], others: Sequence[Path]
) -> None:
    """Create `judged`, a row a verdict; `verdicts`, the task's evaluator's; and `answers`, a row an answer."""
    for number, paths in enumerate((own, others)):
        if number and not paths:
            continue
        db.execute(
            f"""
            {"INSERT INTO judged" if number else "CREATE TABLE judged AS"}
            SELECT row_id, attempt, status, list_distinct(faults) AS faults, request_hash,
                   retries, prompt_tokens, completion_tokens, cost_usd, latency_ms, evaluated_at,
                   {number == 0} AS own
            FROM read_parquet(?, union_by_name = true)
            """,
            [[str(path) for path in paths]],
        )
    db.execute("CREATE VIEW verdicts AS FROM judged WHERE own")
    # The rows of one answer repeat its figures, so any of them will do.
    db.execute(
        """
        CREATE TABLE answers AS
        SELECT first(retries) AS retries, first(prompt_tokens) AS prompt_tokens,
               first(completion_tokens) AS completion_tokens, first(cost_usd) AS cost_usd,
               first(latency_ms) AS latency_ms, min(evaluated_at) AS evaluated_at
        FROM judged
        GROUP BY request_hash, attempt
        """
    )


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _one(db: duckdb.DuckDBPyConnection, query: str) -> tuple[Any, ...]:
    row: tuple[Any, ...] = db.execute(query).fetchall()[0]
    return row


def _ratio(figure: str, part: int, whole: int, of: str) -> Row:
    """A share with its denominator, undefined where that is none."""
    return (
        figure,
        None,
        None,
        part / whole if whole else None,
        whole,
        None if whole else f"undefined: no {of}",
    )


def _validity(db: duckdb.DuckDBPyConnection) -> Iterator[Row]:
    records, unresolved = _one(
        db, "SELECT count(*), count(*) FILTER (status = 'unresolved') FROM scores"
    )
    valid, invalid = _one(
        db,
        """
        SELECT count(*) FILTER (status = 'valid'), count(*) FILTER (status = 'invalid')
        FROM verdicts WHERE attempt = 1
        """,
    )
    (repaired,) = _one(
        db,
        """
        SELECT count(DISTINCT row_id) FROM verdicts
        WHERE status = 'valid' AND row_id IN (
            SELECT row_id FROM verdicts WHERE attempt = 1 AND status = 'invalid')
        """,
    )
    judged = valid + invalid
    for figure, count, n in (
        ("records", records, records),
        ("valid", valid, judged),
        ("invalid", invalid, judged),
        ("repaired", repaired, invalid),
        ("unresolved", unresolved, records),
    ):
        yield figure, None, None, count, n, None
    yield _ratio("invalid_rate", invalid, judged, "verdicts")
    yield _ratio("unresolved_rate", unresolved, records, "records")
    yield _ratio("recovery_rate", repaired, invalid, "invalid verdicts")
    faults = db.execute(
        """
        SELECT fault, count(*) FROM (SELECT unnest(faults) AS fault FROM verdicts WHERE attempt = 1)
        GROUP BY fault ORDER BY count(*) DESC, fault
        """
    ).fetchall()
    for fault, count in faults:
        yield "fault_count", None, fault, count, judged, None
    for fault, count in faults:
        yield "fault_rate", None, fault, count / judged, judged, None


def _distributions(
    db: duckdb.DuckDBPyConnection,
    bounds: Mapping[str, tuple[float, float]],
    labels: Sequence[str],
    about_window: str,
) -> Iterator[Row]:
    yield from _summaries(db, list(bounds))
    current, reference = _counts(db, "scores", list(bounds)), _counts(db, "earlier", list(bounds))
    for field, (low, high) in bounds.items():
        edges = bins(low, high, whole=field != SCORE)
        about = about_window
        if any(not low <= value <= high for value in reference[field]):
            reference[field] = {}
            about += f", whose values go beyond today's scale of {low:g} to {high:g}"
        now, before = _binned(current[field], edges), _binned(reference[field], edges)
        yield from _shares("share", field, now)
        yield from _trailing_mean(field, reference[field])
        yield from _shares("trailing_share", field, before)
        yield from _drift(
            field,
            population_stability_index(before, now),
            two_sample(_repeated(reference[field]), _repeated(current[field])),
            (sum(before.values()), sum(now.values())),
            about,
        )
    current, reference = _counts(db, "scores", labels), _counts(db, "earlier", labels)
    for field in labels:
        before, now = reference[field], current[field]
        yield from _shares("share", field, now)
        yield from _shares("trailing_share", field, before)
        # Over a hundred sparse classes PSI is large by chance alone, so both figures pool them.
        pooled = pool_sparse(before, now)
        yield from _drift(
            field,
            population_stability_index(
                {i: cell[0] for i, cell in enumerate(pooled)},
                {i: cell[1] for i, cell in enumerate(pooled)},
            ),
            label_shift(before, now),
            (sum(before.values()), sum(now.values())),
            about_window,
        )


def _summaries(db: duckdb.DuckDBPyConnection, fields: Sequence[str]) -> Iterator[Row]:
    names = ["mean", "sd", "min", *QUANTILES, "max"]
    for field in fields:
        column = _identifier(field)
        n, quantiles, mean, sd, low, high = _one(
            db,
            f"""
            SELECT count({column}), quantile_cont({column}, {list(QUANTILES.values())}),
                   avg({column}), stddev_samp({column}), min({column}), max({column})
            FROM scores WHERE status = 'valid'
            """,
        )
        values = [mean, sd, low, *(quantiles or [None] * len(QUANTILES)), high]
        for name, value in zip(names, values, strict=True):
            note = f"undefined: n = {n}" if value is None else None
            yield name, field, None, value, n, note


def _counts(db: duckdb.DuckDBPyConnection, table: str, fields: Sequence[str]) -> Counts:
    """How many valid records of `table` hold each value of each field, most frequent first."""
    counts: Counts = {}
    for field in fields:
        column = _identifier(field)
        counts[field] = dict(
            db.execute(
                f"""
                SELECT {column}, count(*) FROM {table}
                WHERE status = 'valid' AND {column} IS NOT NULL
                GROUP BY {column} ORDER BY count(*) DESC, {column}
                """
            ).fetchall()
        )
    return counts


def _binned(counts: Mapping[float, int], edges: Mapping[str, float]) -> dict[str, int]:
    names, lower = list(edges), list(edges.values())
    binned = dict.fromkeys(names, 0)
    for value, count in counts.items():
        binned[names[bisect_right(lower, value) - 1]] += count
    return binned


def _repeated(counts: Mapping[float, int]) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.repeat(np.fromiter(counts.keys(), np.float64), np.fromiter(counts.values(), np.int64))


def _shares(figure: str, field: str, counts: Mapping[str, int]) -> Iterator[Row]:
    n = sum(counts.values())
    for key, count in counts.items():
        yield (
            (figure, field, key, count / n, n, None)
            if n
            else ((figure, field, key, None, 0, "undefined: n = 0"))
        )


def _trailing_mean(field: str, counts: Mapping[float, int]) -> Iterator[Row]:
    n = sum(counts.values())
    mean = sum(value * count for value, count in counts.items()) / n if n else None
    yield "trailing_mean", field, None, mean, n, None if n else "undefined: n = 0"


def _about(db: duckdb.DuckDBPyConnection, days: Sequence[str]) -> str:
    """The window in words: its days, and whether it was judged by the same means as the day."""
    if not days:
        return "no earlier day in the window"
    (changed,) = _one(
        db,
        """
        SELECT count(*) FROM (
            SELECT rubric_hash, config_hash FROM earlier
            EXCEPT SELECT rubric_hash, config_hash FROM scores)
        """,
    )
    span = f"{days[0]} to {days[-1]}" if len(days) > 1 else days[0]
    return f"{span} ({len(days)} day{'s' * (len(days) > 1)})" + (
        ", judged in part by another rubric or evaluator" if changed else ""
    )


def _drift(
    field: str, stability: Stability, shift: Shift, sizes: tuple[int, int], about_window: str
) -> Iterator[Row]:
    against = f"n {sizes[1]:,} against {sizes[0]:,} of {about_window}"
    for figure, value, reason in (
        ("psi", stability.value, stability.reason),
        ("effect", shift.effect, shift.reason),
        ("p_value", shift.p_value, shift.reason),
    ):
        note = against if value is not None else f"undefined: {reason}; {against}"
        yield figure, field, None, value, sizes[1], note


def _groups(db: duckdb.DuckDBPyConnection) -> Iterator[Row]:
    for group in ("language", "agent_version"):
        for key, mean, n in db.execute(
            f"""
            SELECT {group}, avg({SCORE}), count({SCORE}) FROM scores WHERE status = 'valid'
            GROUP BY {group} ORDER BY count({SCORE}) DESC, {group} NULLS LAST
            """
        ).fetchall():
            note = f"records without {group}" if key is None else None
            yield f"mean_by_{group}", SCORE, key, mean, n, note


def _operations(db: duckdb.DuckDBPyConnection) -> Iterator[Row]:
    answers, repeated, tries = _one(
        db,
        """
        SELECT count(*), count(*) FILTER (len(retries) > 0), coalesce(sum(len(retries)), 0)
        FROM answers
        """,
    )
    records, verdicts = _one(db, "SELECT (SELECT count(*) FROM scores), count(*) FROM judged")
    yield "answers", None, None, answers, answers, None
    yield "saved", None, None, verdicts - answers, verdicts, None
    yield "retries", None, None, tries, answers, None
    for kind, count in db.execute(
        """
        SELECT kind, count(*) FROM (SELECT unnest(retries) AS kind FROM answers)
        GROUP BY kind ORDER BY count(*) DESC, kind
        """
    ).fetchall():
        yield "retries", None, kind, count, answers, None
    yield _ratio("retry_rate", repeated, answers, "answers")
    for figure in ("prompt_tokens", "completion_tokens", "cost_usd"):
        total, n = _one(db, f"SELECT sum({figure}), count({figure}) FROM answers")
        note = None if n else "undefined: no answer reports it"
        yield figure, None, None, total, n, note
    latencies, n = _one(
        db,
        f"""
        SELECT quantile_cont(latency_ms, {list(LATENCIES.values())}), count(latency_ms)
        FROM answers
        """,
    )
    for index, key in enumerate(LATENCIES):
        note = None if n else "undefined: no answer reports it"
        yield "latency_ms", None, key, latencies[index] if n else None, n, note
    yield from _rates(db, records, answers)


def _rates(db: duckdb.DuckDBPyConnection, records: int, answers: int) -> Iterator[Row]:
    gaps, seconds = _one(
        db,
        f"""
        SELECT count(gap) FILTER (gap <= {PAUSE}), coalesce(sum(gap) FILTER (gap <= {PAUSE}), 0)
        FROM (SELECT epoch(evaluated_at - lag(evaluated_at) OVER (ORDER BY evaluated_at)) AS gap
              FROM answers)
        """,
    )
    rate = gaps / seconds if seconds else None
    note = (
        f"over {seconds:.1f} s of evaluation time"
        if seconds
        else "undefined: the answers span no time"
    )
    yield "answers_per_second", None, None, rate, gaps, note
    per_record = rate * records / answers if rate is not None and records else None
    yield (
        "records_per_second",
        None,
        None,
        per_record,
        records,
        note if records else ("undefined: no records"),
    )
