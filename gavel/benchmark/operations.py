"""What running an evaluator took: validity, retries, speed, tokens and cost, from the rows of its verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl

from gavel.settings.judging import Evaluator

LATENCIES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True)
class Measured:
    """One figure; `key` is the fault, the kind of retry or the quantile. Null exactly where `note` says why."""

    figure: str
    value: float | None
    n: int
    key: str | None = None
    note: str | None = None


def operations(
    verdicts: pl.DataFrame, answers: pl.DataFrame, evaluator: Evaluator
) -> Iterator[Measured]:
    """The operational figures of one evaluator on one task.

    `verdicts` has every attempt, `answers` the ledger's rows: also answers that are only compared with others.
    Times are those of the answers, whenever they were asked: a run that finds everything in the ledger
    measures what the run that asked did. `records_per_second` is over the time from the first request to the last
    answer, run by run; `peak_concurrency` is the most requests under way at once, in their last tries.
    """
    first = verdicts.filter(pl.col("attempt") == 1)
    records, invalid = first.height, first.filter(pl.col("status") == "invalid")
    valid = verdicts.filter(pl.col("status") == "valid")["row_id"].n_unique()
    yield Measured("records", records, records)
    yield _ratio("invalid_rate", invalid.height, records, "records")
    yield _ratio("unresolved_rate", records - valid, records, "records")
    repaired = invalid.filter(pl.col("row_id").is_in(_valid_ids(verdicts))).height
    yield _ratio("recovery_rate", repaired, invalid.height, "invalid verdicts")
    faults = first.select("row_id", pl.col("faults").list.unique()).explode("faults").drop_nulls()
    for fault, count in sorted(faults["faults"].value_counts().iter_rows()):
        yield Measured("faults", count, records, fault)
    yield from _retries(answers)
    yield from _speed(answers, records, evaluator)
    for name in ("prompt_tokens", "completion_tokens"):
        yield _sum(name, answers[name])


def _valid_ids(verdicts: pl.DataFrame) -> list[str]:
    return verdicts.filter(pl.col("status") == "valid")["row_id"].unique().to_list()


def _ratio(figure: str, part: int, whole: int, of: str) -> Measured:
    note = None if whole else f"undefined: no {of}"
    return Measured(figure, part / whole if whole else None, whole, note=note)


def _sum(figure: str, column: pl.Series) -> Measured:
    known = column.drop_nulls()
    total: Any = known.sum() if len(known) else None
    note = None if len(known) else "undefined: no answer reports it"
    return Measured(figure, total, len(known), note=note)


def _retries(answers: pl.DataFrame) -> Iterator[Measured]:
    kinds = answers.select("retries").explode("retries").drop_nulls()["retries"]
    yield Measured("retries", len(kinds), answers.height)
    for kind, count in sorted(kinds.value_counts().iter_rows()):
        yield Measured("retries", count, answers.height, kind)


def _speed(answers: pl.DataFrame, records: int, evaluator: Evaluator) -> Iterator[Measured]:
    latency = answers["latency_ms"].drop_nulls()
    for key, quantile in LATENCIES.items():
        note = None if len(latency) else "undefined: no answer reports it"
        found = latency.quantile(quantile, "linear")
        yield Measured("latency_ms", found, len(latency), key, note)
    end = answers["answered_at"].dt.epoch("us")
    took = (answers["latency_ms"].fill_null(0) * 1e3).round().cast(pl.Int64)
    times = answers.select("run_id", (end - took).alias("start"), end.alias("end"))
    spans = times.group_by("run_id").agg(pl.col("end").max() - pl.col("start").min())
    seconds = float(spans["end"].sum()) / 1e6
    if records and seconds:
        yield Measured("records_per_second", records / seconds, records, note=f"{seconds:.3f} s")
    else:
        why = "undefined: no records" if not records else "undefined: the answers span no time"
        yield Measured("records_per_second", None, records, note=why)
    yield _peak(times)
    yield _cost(answers, records, seconds, evaluator)


def _peak(times: pl.DataFrame) -> Measured:
    """The most requests under way at once; one that starts as another ends comes after it."""
    if not times.height:
        return Measured("peak_concurrency", None, 0, note="undefined: no answers")
    events = sorted([(t, 1) for t in times["start"]] + [(t, -1) for t in times["end"]])
    most = at_once = 0
    for _, change in events:
        at_once += change
        most = max(most, at_once)
    return Measured("peak_concurrency", max(most, 1), times.height)


def _cost(answers: pl.DataFrame, records: int, seconds: float, evaluator: Evaluator) -> Measured:
    """US dollars a thousand records: the machine's hours where it has a price, else tokens by list price."""
    figure, prices = "cost_usd_per_1000", evaluator.prices
    cost: Any = None
    if not records:
        return Measured(figure, None, 0, note="undefined: no records")
    if prices.hour is not None:
        cost = prices.hour * seconds / 3600
        note = f"{prices.hour:g} dollars an hour of the machine"
    elif evaluator.backend == "heuristic":
        cost, note = 0.0, "rules cost nothing"
    elif not prices.model_fields_set:
        note = "undefined: the evaluator has no prices in suite.yaml"
    else:
        read, written = answers["prompt_tokens"], answers["completion_tokens"]
        usd = (read * prices.prompt + written * prices.completion).drop_nulls() / 1e6
        cost = usd.sum() if len(usd) else None
        note = "list prices" if len(usd) else "undefined: no answer reports its tokens"
    return Measured(figure, None if cost is None else 1000 * cost / records, records, note=note)
