"""What happened, in a page of text: the end of a command-line evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from gavel.alignment.labels import missing_labels
from gavel.dialogue.leaderboard import outdated_because
from gavel.fashion.evaluate import MODES
from gavel.fashion.leaderboard import (
    BY_SIMILARITY,
    QUALITY,
    baselines_out_of_order,
    outdated_systems,
    ranking,
)
from gavel.publishing import warehouse_of
from gavel.report.quality import Figures
from gavel.store.bucket import shown
from gavel.store.files import Store
from gavel.store.tables import count_reasons, row_count
from gavel.suite import Suite


def summary(suite: Suite, store: Store, days: Sequence[str], sent: int) -> str:
    """The counts, mean scores and places of `days`, which must all be published.

    `sent` is how many requests it took now; most or all answers may be older.

    Raises:
        StoreError: a table of one of the days is missing.
    """
    lines = ["", f"{suite.name}: {', '.join(days)}", ""]
    raw = sum(row_count(store.existing("logs/raw", day)) for day in days)
    clean = sum(row_count(store.existing("logs/clean", day)) for day in days)
    reasons = count_reasons([store.existing("logs/rejected", day) for day in days])
    rejected = "; ".join(f"{reason} {count:,}" for reason, count in reasons.items()) or "none"
    lines += [
        f"source rows    {raw:>8,}",
        f"records        {clean:>8,}",
        f"rejected       {raw - clean:>8,}   {rejected}",
        f"requests sent  {sent:>8,}   in this run; an answer that is in the ledger already costs none",
    ]
    for task in suite.task_names():
        lines += ["", *_task(suite, store, task, days)]
    report = store.root / "report" / f"{days[-1]}.html"
    lines += [
        "",
        f"report      {shown(report)}",
        f"Parquet     {shown(store.root)}",
        f"warehouse   {warehouse_of(suite)}",
        "lineage     "
        + (
            ""
            if suite.file == Path("suite.yaml").absolute()
            else f"GAVEL_SUITE={shown(suite.file)} "
        )
        + "make ui",
    ]
    return "\n".join(lines)


def standings(suite: Suite, store: Store) -> str:
    """The leaderboard of the dialogue benchmark: systems by figures, the reference's beside the strict."""
    table = pq.read_table(store.existing("dialogue/leaderboard")).to_pylist()
    lines = ["", f"{suite.name}: dialogue benchmark"]
    for track in dict.fromkeys(row["track"] for row in table):
        rows = [row for row in table if row["track"] == track]
        names = list(dict.fromkeys(row["figure"] for row in rows))
        lines += ["", f"{track:<22} " + " ".join(f"{name:>18}" for name in names)]
        marked = {row["system"] for row in rows if row["outdated"]}
        for system, reading in dict.fromkeys((row["system"], row["reading"]) for row in rows):
            values = {
                row["figure"]: row["value"]
                for row in rows
                if (row["system"], row["reading"]) == (system, reading)
            }
            shown = (values.get(name) for name in names)
            lines.append(
                f"{f'{system}, {reading}' + ' *' * (system in marked):<22} "
                + " ".join(f"{'-':>18}" if value is None else f"{value:18.2f}" for value in shown)
            )
    if outdated := outdated_because(table):
        lines += ["", *(f"* {system}: {why}" for system, why in outdated.items())]
    lines += ["", f"leaderboard {store.root / 'dialogue' / 'leaderboard.html'}"]
    return "\n".join(lines)


def fashion_standings(suite: Suite, store: Store) -> str:
    """The leaderboard of the fashion benchmark: systems by language, by the figures of quality defined."""
    rows = pq.read_table(store.existing("fashion/leaderboard")).to_pylist()
    whole = [row for row in rows if row["key"] == ""]
    names = [
        name
        for name in QUALITY
        if any(r["figure"] == name and r["value"] is not None for r in whole)
    ]
    names += ["cost_usd"]
    values = {(r["mode"], r["language"], r["system"], r["figure"]): r["value"] for r in whole}
    lines = ["", f"{suite.name}: fashion benchmark"]
    for mode, title in MODES.items():
        present = dict.fromkeys((r["language"], r["system"]) for r in whole if r["mode"] == mode)
        if not present:
            continue
        lines += ["", title, f"{'':<22} " + " ".join(f"{name:>20}" for name in names)]
        for language, system in present:
            shown = (values[mode, language, system, name] for name in names)
            lines.append(
                f"{f'{language}, {system}':<22} "
                + " ".join(f"{'-':>20}" if value is None else f"{value:20.2f}" for value in shown)
            )
    missing = [
        row["reason"] for row in whole if row["figure"] == "bertscore" and row["value"] is None
    ]
    odd = baselines_out_of_order(rows)
    why = [BY_SIMILARITY] if odd and ranking(rows) == "similarity" else []
    lines += ["", *outdated_systems(rows), *odd, *why, *missing[:1]]
    lines += ["", f"leaderboard {store.root / 'fashion' / 'leaderboard.html'}"]
    return "\n".join(lines)


def side_by_side(suite: Suite, store: Store) -> str:
    """The benchmark of evaluators: quality, speed, validity and cost of each, best first."""
    table = pq.read_table(store.existing("benchmark/table")).to_pylist()
    figures = ("quality", "records_per_second", "invalid_rate", "cost_usd_per_1000", "pareto")
    found: dict[tuple[str, str], dict[str, float | None]] = {}
    for row in table:
        if row["figure"] in figures:
            found.setdefault((row["task"], row["evaluator"]), {})[row["figure"]] = row["value"]
    lines = ["", f"{suite.name}: evaluators side by side"]
    for task in dict.fromkeys(task for task, _ in found):
        records = max(r["n"] for r in table if (r["task"], r["figure"]) == (task, "records"))
        title = f"{task}, {records:,} labelled records"
        lines += ["", f"{title:<36} " + " ".join(f"{figure:>18}" for figure in figures)]
        own = {name: values for (of, name), values in found.items() if of == task}
        for name in sorted(own, key=lambda name: -(own[name]["quality"] or 0.0)):
            shown = (own[name].get(figure) for figure in figures)
            lines.append(
                f"{name:<36} "
                + " ".join(f"{'-':>18}" if value is None else f"{value:18.4g}" for value in shown)
            )
    if not any(row["n"] for row in table if row["figure"] == "records"):
        lines += ["", missing_labels(suite)]
    lines += ["", f"page        {store.root / 'benchmark' / 'table.html'}"]
    if suite.benchmark.pairs is not None:
        lines.append(f"pairs       {store.root / 'benchmark' / 'ranking.html'}")
    return "\n".join(lines)


def _task(suite: Suite, store: Store, task: str, days: Sequence[str]) -> list[str]:
    tables = [Figures(pq.read_table(store.existing(f"{task}/quality", day))) for day in days]

    def total(figure: str) -> int:
        return int(sum(figures.value(figure) or 0 for figures in tables))

    name, evaluator = suite.evaluator_of(task)
    rules = (
        " (rule-based baseline, not a model's judgement)"
        if evaluator.backend == "heuristic"
        else ""
    )
    invalid, repaired = total("invalid"), total("repaired")
    lines = [
        f"{task}, judged by {name}{rules}",
        f"  scored         {total('records') - total('unresolved'):>8,}",
        f"  invalid        {invalid:>8,}   repaired by asking again {repaired:,}, "
        f"unresolved {total('unresolved'):,}",
        f"  answers        {total('answers'):>8,}   saved {total('saved'):,} of "
        f"{total('records'):,} records by asking equal requests once",
        f"  {'mean score':<24} " + "  ".join(days),
    ]
    for field in tables[-1].fields("mean"):
        means = [figures.value("mean", field) for figures in tables]
        shown = "  ".join("         -" if mean is None else f"{mean:10.2f}" for mean in means)
        lines.append(f"  {field:<24} {shown}")
    return lines
