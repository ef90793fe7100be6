"""The benchmark's table: evaluators x figures with intervals and signatures; and the paired tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import combinations
from statistics import fmean
from typing import Any

import pandera.polars as pandera
import polars as pl
import pyarrow as pa

from gavel.agreement.bootstrap import Estimate, Resampling, holm, mcnemar
from gavel.agreement.dimensions import compare_dimensions, dimension_agreement
from gavel.agreement.labels import compare_labels, label_agreement
from gavel.benchmark.operations import Measured, operations
from gavel.benchmark.records import People
from gavel.judge.escalation import escalated
from gavel.judge.opinions import TEXTS, first_tier, winners
from gavel.judge.panel import panel_name
from gavel.judge.rubric import Rubric
from gavel.settings.judging import Evaluator, Prices
from gavel.suite import Suite

QUALITY_OF_LABELS, QUALITY_OF_DIMENSIONS = "macro_f1", "quadratic_kappa"
"""What `quality` is the mean of: both are defined for an evaluator that always answers the same."""
LEAST_JUDGED = 0.5
"""Of the labelled records, the share that must have a valid verdict for `quality` to say anything."""

TESTED = {"label": ("macro_f1", "accuracy"), "dimension": ("spearman", "quadratic_kappa")}
"""The figures that every two evaluators are compared by. Accuracy has McNemar's p, the others the bootstrap's."""

TABLE = pa.schema(
    [
        *((name, pa.string()) for name in ("task", "evaluator", "model")),
        ("floor", pa.bool_()),
        *((name, pa.string()) for name in ("figure", "field", "key")),
        *((name, pa.float64()) for name in ("value", "low", "high")),
        ("n", pa.int64()),
        *((name, pa.string()) for name in ("note", "signature")),
    ]
)
"""One row a task, evaluator and figure: figures of agreement by field, of operation, `quality` and `pareto`."""

COMPARISONS = pa.schema(
    [
        *((name, pa.string()) for name in ("task", "figure", "field", "first", "second", "test")),
        *((name, pa.float64()) for name in ("difference", "low", "high", "p", "p_holm")),
        ("n", pa.int64()),
        ("note", pa.string()),
    ]
)
"""One row a pair of evaluators, figure and field: first minus second on the records that both have."""

_FINITE = pandera.Check(lambda data: data.lazyframe.select(pl.col(data.key).is_finite()))
TABLE_VALID = pandera.DataFrameSchema(
    {
        **{
            name: pandera.Column(pl.String) for name in ("task", "evaluator", "figure", "signature")
        },
        # An undefined figure is null; NaN would look like a number.
        **{n: pandera.Column(pl.Float64, _FINITE, nullable=True) for n in ("value", "low", "high")},
        "note": pandera.Column(pl.String, nullable=True),
        "n": pandera.Column(pl.Int64, pandera.Check.ge(0)),
    },
    checks=[
        pandera.Check(
            lambda data: data.lazyframe.select(
                pl.col("value").is_not_null() | pl.col("note").is_not_null()
            ),
            name="an undefined figure says why",
        )
    ],
)
"""What every row of the table satisfies."""


@dataclass
class Contender:
    """One evaluator on one task. `said` is its valid verdict on each record, null where it has none.

    `measured` is what running it took; `fields` its figures of agreement, by figure and field.
    """

    name: str
    model: str
    said: pl.DataFrame
    measured: list[Measured]
    signature: str
    floor: bool = False
    fields: dict[tuple[str, str], Estimate] = field(default_factory=dict)

    def value(self, figure: str) -> float | None:
        """The value of an operational figure."""
        return next((m.value for m in self.measured if (m.figure, m.key) == (figure, None)), None)


@dataclass(frozen=True)
class Labelled:
    """The labelled records of a task: `records` in order, what `people` agreed on, and hashes of both."""

    rubric: Rubric
    records: pl.DataFrame
    people: People
    hashes: str

    def truth(self, name: str) -> list[Any]:
        """What people agreed on for `name`, record by record; None where they did not."""
        known = self.people.get(name, {})
        return [known.get(row_id) for row_id in self.records["row_id"]]

    @property
    def conversations(self) -> list[str]:
        """The conversation of each record."""
        return self.records["conversation_id"].to_list()


def contenders(
    suite: Suite,
    labelled: Labelled,
    judged: Mapping[str, pl.DataFrame],
    answers: Mapping[str, pl.DataFrame],
    resampling: Resampling,
) -> list[Contender]:
    """Every evaluator of `judged`, and the suite's panel and tiers.

    `judged` are the verdicts on the task, every attempt, `answers` what the ledger holds of them, by evaluator.
    """
    rubric = labelled.rubric
    found = []
    for name, verdicts in judged.items():
        measured = list(operations(verdicts, answers[name], suite.evaluators.get(name, _RULES)))
        model = one_of(verdicts, "model")
        said = winners(verdicts).select("row_id", *rubric.columns)
        settings = suite.evaluators.get(name, _RULES)
        signature = _signature(labelled, name, verdicts, settings.prices, resampling)
        rules = settings.backend == "heuristic"
        found.append(Contender(name, model, said, measured, signature, rules))
    found += _composed(suite, labelled, judged, found, resampling)
    for contender in found:
        contender.fields = _agreement(labelled, contender.said, resampling)
    return found


def table_rows(labelled: Labelled, found: Sequence[Contender]) -> Iterator[dict[str, Any]]:
    """The rows of `TABLE` for one task."""
    qualities = quality(labelled.rubric, found)
    front = pareto(
        {c.name: (c.value("records_per_second"), qualities[c.name].value) for c in found}
    )
    for contender in found:
        shared = {
            "task": labelled.rubric.task,
            "evaluator": contender.name,
            "model": contender.model,
            "floor": contender.floor,
            "signature": contender.signature,
        }
        own = qualities[contender.name]
        on_front = front.get(contender.name)
        no_place = None if on_front is not None else "undefined: quality or throughput is"
        marked = Measured("pareto", on_front, len(front), note=no_place)
        for measured in (own, marked, *contender.measured):
            yield {**shared, "field": None, **vars(measured)}
        for (figure, name), estimate in contender.fields.items():
            yield {
                **shared,
                "figure": figure,
                "field": name,
                "key": None,
                "value": _rounded(estimate.value),
                "low": estimate.low,
                "high": estimate.high,
                "n": estimate.n,
                "note": _because(estimate),
            }


def comparison_rows(
    labelled: Labelled, found: Sequence[Contender], resampling: Resampling
) -> list[dict[str, Any]]:
    """The rows of `COMPARISONS` for one task: every two evaluators that are not both a floor.

    p-values are corrected after Holm over the pairs of one figure and field.
    """
    rows: list[dict[str, Any]] = []
    rubric = labelled.rubric
    pairs = [(a, b) for a, b in combinations(found, 2) if not (a.floor and b.floor)]
    resampling = resampling.for_pairs(len(pairs))
    for name in rubric.columns:
        truth = labelled.truth(name)
        if all(value is None for value in truth):
            continue
        for one, other in pairs:
            mine, theirs = (_aligned(labelled, c.said, name) for c in (one, other))
            shared = {"field": name, "task": rubric.task, "first": one.name, "second": other.name}
            rows += [
                {**shared, **row}
                for row in _compared(labelled, name, truth, mine, theirs, resampling)
            ]
    families: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        families.setdefault((row["figure"], row["field"]), []).append(row)
    for family in families.values():
        for row, p in zip(family, holm([row["p"] for row in family]), strict=True):
            row["p_holm"] = p
    return sorted(rows, key=lambda row: (row["figure"], row["field"]))


def quality(rubric: Rubric, found: Sequence[Contender]) -> dict[str, Measured]:
    """One number an evaluator: the mean of macro F1 (labels) and quadratic-weighted kappa (dimensions).

    It is taken over the fields in which the figure is defined for every evaluator, so that all are measured by the
    same ones. An evaluator that has no valid verdict on most records has none, and decides on no field: its
    kappas are those of the few records that it did judge.
    """
    silent = [c.name for c in found if _judged_share(rubric, c, found) < LEAST_JUDGED]
    if silent:
        few = (
            f"undefined: fewer than {LEAST_JUDGED:.0%} of the labelled records have a valid verdict"
        )
        rest = [c for c in found if c.name not in silent]
        return {
            **{name: Measured("quality", None, 0, note=few) for name in silent},
            **quality(rubric, rest),
        }
    wanted = [(QUALITY_OF_DIMENSIONS, dimension.name) for dimension in rubric.dimensions]
    wanted += [(QUALITY_OF_LABELS, name) for name in rubric.label_values]
    kept = [
        key
        for key in wanted
        if all(key in c.fields and c.fields[key].value is not None for c in found)
    ]
    if not kept:
        note = (
            "undefined: there is no field that people labelled and every evaluator has a figure of"
        )
        return {c.name: Measured("quality", None, 0, note=note) for c in found}
    left_out = [name for figure, name in wanted if (figure, name) not in kept]
    note = f"mean over {len(kept)} fields" + (
        f", without {', '.join(left_out)}" if left_out else ""
    )
    return {
        c.name: Measured(
            "quality",
            fmean(_rounded(c.fields[key].value) or 0.0 for key in kept),
            len(kept),
            note=note,
        )
        for c in found
    }


def _judged_share(rubric: Rubric, one: Contender, found: Sequence[Contender]) -> float:
    """The largest share of the records of a dimension that `one` has a value of; 1 where there is no dimension."""
    shares = []
    for dimension in rubric.dimensions:
        key = (QUALITY_OF_DIMENSIONS, dimension.name)
        most = max((c.fields[key].n for c in found if key in c.fields), default=0)
        if most:
            shares.append((one.fields[key].n if key in one.fields else 0) / most)
    return max(shares, default=1.0)


def pareto(points: Mapping[str, tuple[float | None, float | None]]) -> dict[str, float]:
    """1 for each point that no other beats in both coordinates, or in one at equal other; else 0.

    Points without one of the two are left out.
    """
    known = {name: (x, y) for name, (x, y) in points.items() if x is not None and y is not None}
    return {
        name: float(
            not any(
                other_x >= x and other_y >= y and (other_x, other_y) != (x, y)
                for other_x, other_y in known.values()
            )
        )
        for name, (x, y) in known.items()
    }


def _agreement(
    labelled: Labelled, said: pl.DataFrame, resampling: Resampling
) -> dict[tuple[str, str], Estimate]:
    """Every figure of agreement of every field that people labelled. A label without a valid verdict is wrong."""
    found: dict[tuple[str, str], Estimate] = {}
    rubric, conversations = labelled.rubric, labelled.conversations
    for name in rubric.columns:
        truth = labelled.truth(name)
        if all(value is None for value in truth):
            continue
        given = _aligned(labelled, said, name)
        figures = (
            label_agreement(truth, given, conversations, rubric.label_values[name], resampling)
            if name in rubric.label_values
            else dimension_agreement(truth, given, conversations, resampling)
        ).figures
        found |= {(figure, name): estimate for figure, estimate in figures.items()}
    return found


def _aligned(labelled: Labelled, said: pl.DataFrame, name: str) -> list[Any]:
    """What an evaluator says of each labelled record; of a label without a valid verdict "", which is wrong."""
    known = dict(said.select("row_id", name).iter_rows())
    missing = "" if name in labelled.rubric.label_values else None
    return [known.get(row_id, missing) for row_id in labelled.records["row_id"]]


def _compared(
    labelled: Labelled,
    name: str,
    truth: Sequence[Any],
    one: Sequence[Any],
    other: Sequence[Any],
    resampling: Resampling,
) -> Iterator[dict[str, Any]]:
    conversations = labelled.conversations
    if name in labelled.rubric.label_values:
        figures = TESTED["label"]
        classes = labelled.rubric.label_values[name]
        found = compare_labels(truth, one, other, conversations, classes, resampling)
    else:
        figures = TESTED["dimension"]
        found = compare_dimensions(truth, one, other, conversations, resampling)
    for figure in figures:
        difference = found[figure]
        p, note, test = difference.p, difference.reason, "paired bootstrap"
        if figure == "accuracy":
            kept = [n for n, value in enumerate(truth) if value is not None]
            exact = mcnemar(
                [one[n] == truth[n] for n in kept], [other[n] == truth[n] for n in kept]
            )
            p, test = exact.p, "McNemar"
            note = f"only first right: {exact.first_only}, only second: {exact.second_only}"
        yield {
            "figure": figure,
            "test": test,
            "difference": difference.value,
            "low": difference.low,
            "high": difference.high,
            "p": p,
            "n": difference.n,
            "note": note,
        }


def _composed(
    suite: Suite,
    labelled: Labelled,
    judged: Mapping[str, pl.DataFrame],
    found: Sequence[Contender],
    resampling: Resampling,
) -> Iterator[Contender]:
    """The task's panel, and its tiers, as if they had been asked: made of the verdicts of their members."""
    rubric = labelled.rubric
    settings = suite.settings_of(rubric.task)
    own = suite.evaluator_of(rubric.task)[0]
    if not settings.others or any(name not in judged for name in (own, *settings.others)):
        return
    by_name = {contender.name: contender for contender in found}
    seats = [own, *([] if settings.panel is None else settings.panel.members)]
    columns = [*_VERDICT_COLUMNS, *rubric.columns]
    frames = {name: judged[name].select(columns) for name in (own, *settings.others)}
    others = pl.concat([frames[own].clear(), *(frames[name] for name in seats[1:])])
    standing = first_tier(rubric, settings, frames[own], others)
    said = standing.filter(pl.col("status") == "valid").select("row_id", *rubric.columns)
    name = panel_name(seats)
    costs = [by_name[seat].value("cost_usd_per_1000") for seat in seats]
    if settings.panel is not None:
        yield _made_of(labelled, name, said, seats, costs, resampling)
    if settings.escalation is None:
        return
    larger = settings.escalation.evaluator
    records = labelled.records.select(pl.exclude(*TEXTS))
    gone = escalated(records.join(standing, on="row_id"), settings.escalation, rubric.task)
    decided = by_name[larger].said.join(gone, on="row_id", how="semi")
    kept = said.join(decided, on="row_id", how="anti")
    both = pl.concat([decided.select(kept.columns), kept])
    share = gone.height / records.height if records.height else 0.0
    whole = by_name[larger].value("cost_usd_per_1000")
    costs.append(None if whole is None else whole * share)
    yield _made_of(labelled, f"{name}>{larger}", both, [*seats, larger], costs, resampling, share)


def _made_of(
    labelled: Labelled,
    name: str,
    said: pl.DataFrame,
    members: Sequence[str],
    costs: Sequence[float | None],
    resampling: Resampling,
    share: float | None = None,
) -> Contender:
    records = labelled.records.height
    measured = [Measured("records", records, records)]
    known = [cost for cost in costs if cost is not None]
    priced = len(known) == len(costs)
    note = "sum of its members'" if priced else "undefined: a member has no cost"
    total = sum(known) if priced else None
    measured.append(Measured("cost_usd_per_1000", total, records, note=note))
    if share is not None:
        measured.append(Measured("escalated_rate", share, records))
    measured.append(
        Measured("records_per_second", None, records, note="undefined: made of others' verdicts")
    )
    signature = f"{_labels_signature(labelled, name, resampling)}|members:{','.join(members)}"
    return Contender(name, "several", said, measured, signature)


_RULES = Evaluator(backend="heuristic")
"""What floors are: rules without a price."""

_VERDICT_COLUMNS = ("row_id", "evaluator", "attempt", "status", "confidence")


def _signature(
    labelled: Labelled, name: str, verdicts: pl.DataFrame, prices: Prices, resampling: Resampling
) -> str:
    """Everything that determines an evaluator's figures, in one line that can be quoted."""
    return (
        f"{_labels_signature(labelled, name, resampling)}|model:{one_of(verdicts, 'model')}"
        f"|rev:{one_of(verdicts, 'model_revision')}|config:{one_of(verdicts, 'config_hash')[:12]}"
        f"|attempts:{max(verdicts['attempt'].to_list(), default=0)}"
        f"|prices:{prices.prompt:g}/{prices.completion:g}/{prices.hour or 0:g}"
    )


def _labels_signature(labelled: Labelled, name: str, resampling: Resampling) -> str:
    rubric = labelled.rubric
    return (
        f"evaluator:{name}|task:{rubric.task}|rubric:{rubric.version}.{rubric.hash[:12]}"
        f"|data:{labelled.hashes}|n:{labelled.records.height}|resamples:{resampling.resamples}"
        f"|confidence:{resampling.confidence:g}|seed:{resampling.seed}|gavel:{version('gavel')}"
    )


def one_of(verdicts: pl.DataFrame, column: str) -> str:
    """The values of a column that should have one; several where the server changed in between."""
    values: list[str] = verdicts[column].drop_nulls().unique().to_list()
    return "+".join(sorted(values)) or "none"


def _rounded(value: float | None) -> float | None:
    """`value` without the last digits of its sums, so that two that are equal by arithmetic are equal."""
    return None if value is None else round(value, 12) + 0.0


def _because(estimate: Estimate) -> str | None:
    if estimate.value is None:
        return f"undefined: {estimate.reason}"
    return None if estimate.reason is None else f"no interval: {estimate.reason}"
