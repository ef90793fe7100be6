"""What other evaluators decided of a day, and what escalating bought: rows of the day's `quality` table.

figure               field      key     value
-------------------  ---------  ------  ---------------------------------------------------
decided                         tier    scores that this tier decided (`gavel.judge.tables.TIERS`)
escalated                       reason  records that went to the larger evaluator for it; key null: all
escalated_rate                          escalated / records
opinions_cost_usd               tier    sum over the answers of the panel's further members, or of the larger one
disagreement                            mean over the records with two votes or more
changed              field              of the records both tiers decided, the share whose value the second changed
accuracy_before,     label              escalated records that people labelled: share on which the first
accuracy_after                          tier, and the score after escalation, agree with them; no value is wrong
mae_before,          dimension          mean absolute error on those that have a value both times
mae_after
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from gavel.benchmark.records import People
from gavel.judge.escalation import REASONS
from gavel.judge.opinions import PANEL, first_tier, read_verdicts
from gavel.judge.rubric import Rubric
from gavel.judge.tables import TIERS
from gavel.report.quality import Row
from gavel.settings.judging import Task


def tier_figures(
    rubric: Rubric,
    settings: Task,
    scores: Path,
    chain: Sequence[Path],
    opinions: Sequence[Path],
    people: People,
) -> Iterator[Row]:
    """The rows that this module says, of a task that asks other evaluators.

    `chain` are the tables of the task's own evaluator, `opinions` those of the others.
    """
    columns = ["row_id", "status", "tier", "escalated", "disagreement", *rubric.columns]
    after = pl.read_parquet(scores, columns=columns)
    for tier in TIERS:
        yield "decided", None, tier, after.filter(pl.col("tier") == tier).height, after.height, None
    if settings.panel is not None:
        apart = after["disagreement"].drop_nulls()
        note = None if len(apart) else "undefined: no record has two valid verdicts"
        mean: Any = apart.mean()
        yield "disagreement", None, None, mean, len(apart), note
        yield _cost("panel", opinions, pl.col("because").list.contains(PANEL))
    if settings.escalation is None:
        return
    gone = after.filter(pl.col("escalated").list.len() > 0)
    yield "escalated", None, None, gone.height, after.height, None
    for reason in REASONS:
        count = gone.filter(pl.col("escalated").list.contains(reason)).height
        yield "escalated", None, reason, count, after.height, None
    rate = gone.height / after.height if after.height else None
    note = None if after.height else "undefined: no records"
    yield "escalated_rate", None, None, rate, after.height, note
    yield _cost("second", opinions, ~pl.col("because").list.contains(PANEL))
    own, others = read_verdicts(rubric, chain), read_verdicts(rubric, opinions)
    before = first_tier(rubric, settings, own, others)
    yield from _bought(rubric, before, gone, people)


def _cost(tier: str, opinions: Sequence[Path], asked: pl.Expr) -> Row:
    """The cost of the answers that were `asked` for this tier."""
    answers = (
        pl.concat([pl.scan_parquet(path) for path in opinions])
        .filter(asked)
        .unique(["request_hash", "attempt"])
        .select("cost_usd")
        .collect()["cost_usd"]
        .drop_nulls()
    )
    total: Any = answers.sum() if len(answers) else None
    note = None if len(answers) else "undefined: no answer reports it"
    return "opinions_cost_usd", None, tier, total, len(answers), note


def _bought(
    rubric: Rubric, before: pl.DataFrame, gone: pl.DataFrame, people: People
) -> Iterator[Row]:
    """How the fields of the escalated records moved, and whether towards people."""
    standing = before.select("row_id", "status", *rubric.columns)
    both = gone.join(standing, on="row_id", suffix=" before")
    decided = both.filter((pl.col("tier") == "second") & (pl.col("status before") == "valid"))
    for field in rubric.columns:
        moved: Any = (decided[field].ne_missing(decided[f"{field} before"])).sum()
        share = moved / decided.height if decided.height else None
        note = None if decided.height else "undefined: no record was decided by both tiers"
        yield "changed", field, None, share, decided.height, note
    dimensions = {dimension.name for dimension in rubric.dimensions}
    for field in rubric.columns:
        known = people.get(field, {})
        name = "mae" if field in dimensions else "accuracy"
        error: Callable[[Any, Any], float] = (
            (lambda said, truth: abs(said - truth))
            if field in dimensions
            else (lambda said, truth: float(said == truth))
        )
        labelled = both.filter(pl.col("row_id").is_in(list(known)))
        if field in dimensions:
            # A distance needs a value, and both figures the same records.
            labelled = labelled.drop_nulls([field, f"{field} before"])
        for when, column in (("before", f"{field} before"), ("after", field)):
            pairs = [
                (said, known[row_id])
                for row_id, said in labelled.select("row_id", column).iter_rows()
            ]
            value = sum(error(*pair) for pair in pairs) / len(pairs) if pairs else None
            note = None if pairs else "undefined: people labelled no escalated record with a value"
            yield f"{name}_{when}", field, None, value, len(pairs), note
