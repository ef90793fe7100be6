"""The pages a person opens: one HTML file for a day, and optionally one for a record.

Each is self-contained: no script, no request, charts as inline SVG. What it shows comes from chat
logs and models and is not trusted: everything is escaped, control and bidirectional-override
characters are made visible, long text is cut with a note, and the policy of the page forbids
scripts.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from math import ceil, floor
from typing import Any

import pyarrow as pa
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from gavel.judge.escalation import REASONS as ESCALATIONS
from gavel.judge.verdicts import FAULTS
from gavel.report.quality import SCORE, Figures
from gavel.settings.operation import Quality

REJECTIONS = {
    "empty_prompt": "the customer's prompt is missing or blank",
    "empty_response": "the agent's response is missing or blank",
    "missing_user_id": "no user id",
    "missing_conversation_id": "no conversation id",
    "malformed_timestamp": "a time that cannot be read",
    "end_before_start": "ends before it starts",
    "duplicate_record_id": "the record id was seen before",
    "unparseable_line": "the line cannot be read as a row",
    "invalid_utf8": "the bytes are not UTF-8 text",
    "unknown_task": "no prompts folder has the task's name",
}
"""What each reason of a rejected row means, in a person's words."""

LONGEST_NAME = 60
LONGEST_TEXT = 20_000
"""Characters shown of a name on the day's page, and of a text on a record's page."""

SHOWN = 8
"""Values of a label, language or version that have a row of their own."""


@dataclass(frozen=True)
class Equality:
    """One accounting equality of one scope, such as `clean = sum of shards` of a day.

    `scope` is what it holds for: the day, a task, a shard.
    """

    statement: str
    scope: str
    left: int
    right: Sequence[int]

    @property
    def holds(self) -> bool:
        """Whether the two sides are equal."""
        return self.left == sum(self.right)


@dataclass(frozen=True)
class TaskReport:
    """One task of the day.

    `quality` and each of `trailing` are tables of `gavel.report.quality`; `trailing` are (day,
    table), oldest first, without the day itself. `nesting` maps a label to the label nested under
    it and the parent of each of its values. `baseline` says that the evaluator is made of rules.
    `provenance` names what made the scores: rubric version and hash, evaluator, model, config hash,
    run ids. `record_pages` are (row_id, relative address, remark).
    """

    task: str
    quality: pa.Table
    trailing: Sequence[tuple[str, pa.Table]] = ()
    nesting: Mapping[str, tuple[str, Mapping[str, str]]] = field(default_factory=dict)
    baseline: bool = False
    provenance: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    record_pages: Sequence[tuple[str, str, str]] = ()


@dataclass(frozen=True)
class DayReport:
    """All that the page of a day shows.

    `raw` and `rejected` count source rows; `reasons` counts rejected rows by reason, a row with two
    reasons under both. `warnings` are sentences by what moved, as `gavel.report.quality.warnings` makes them.
    """

    suite: str
    day: str
    generated_at: dt.datetime
    settings: Quality
    raw: int
    rejected: int
    reasons: Mapping[str, int]
    equalities: Sequence[Equality]
    tasks: Sequence[TaskReport]
    warnings: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RecordReport:
    """All that the page of one record shows.

    `source_row` is the source's text verbatim; `record` the columns of its row in `scores`;
    `attempts` its rows of `verdicts` and `regenerated`, first attempt first; `judged` names the
    dimensions and labels among their columns.
    """

    suite: str
    day: str
    task: str
    row_id: str
    source_row: str | None
    record: Mapping[str, Any]
    attempts: Sequence[Mapping[str, Any]]
    judged: Sequence[str]


def render_day(report: DayReport) -> str:
    """The HTML page of a day."""
    tasks = [_task_view(task, report) for task in report.tasks]
    figures = [view["figures"] for view in tasks]

    def total(figure: str) -> float | None:
        values = [value for f in figures if (value := f.value(figure)) is not None]
        return sum(values) if values else None

    records, unresolved = total("records"), total("unresolved")
    broken = [equality for equality in report.equalities if not equality.holds]
    return (
        environment()
        .get_template("day.html.j2")
        .render(
            report=report,
            date=f"{dt.date.fromisoformat(report.day):%A, %-d %B %Y}",
            tasks=tasks,
            broken=broken,
            scored=None if records is None or unresolved is None else records - unresolved,
            total={
                figure: total(figure)
                for figure in (
                    "records",
                    "invalid",
                    "repaired",
                    "unresolved",
                    "answers",
                    "saved",
                    "cost_usd",
                )
            },
            reasons=sorted(report.reasons.items(), key=lambda item: (-item[1], item[0])),
            rejections=REJECTIONS,
            faults=FAULTS,
            escalations=ESCALATIONS,
        )
    )


def render_record(report: RecordReport) -> str:
    """The HTML page of one record: its text, and every attempt to judge it."""
    texts = ("prompt", "response", "reference", "source_text")
    own = {*texts, *report.judged, "raw_response", "rationale", "faults", "fault_detail"}

    def facts(row: Mapping[str, Any]) -> dict[str, Any]:
        return {k: v for k, v in row.items() if k not in own and v is not None}

    return (
        environment()
        .get_template("record.html.j2")
        .render(
            report=report,
            texts=[(name, report.record[name]) for name in texts if report.record.get(name)],
            facts_of_record=facts(report.record),
            attempts=[
                (attempt, {name: attempt[name] for name in report.judged}, facts(attempt))
                for attempt in report.attempts
            ],
            longest=LONGEST_TEXT,
        )
    )


def _task_view(task: TaskReport, report: DayReport) -> dict[str, Any]:
    """One task's figures, arranged the way the template shows them."""
    figures = Figures(task.quality)
    days = [*((day, Figures(table)) for day, table in task.trailing), (report.day, figures)]
    drifted = figures.drifted(report.settings)
    fields = [name for name in figures.fields("mean") if name != SCORE]
    labels = [name for name in figures.fields("share") if name not in (*fields, SCORE)]
    nested = {child for child, _ in task.nesting.values()}
    return {
        "report": task,
        "figures": figures,
        "days": [day for day, _ in days],
        "trend": _trend(days),
        "histogram": _histogram(figures),
        "dimensions": _dimensions(fields, figures, days, drifted),
        "change": _change(figures, SCORE),
        "score_drifted": SCORE in drifted,
        "labels": [
            _label(name, figures, task.nesting.get(name), name in drifted)
            for name in labels
            if name not in nested
        ],
        "groups": [
            group
            for name, title in (("language", "By language"), ("agent_version", "By agent version"))
            if (group := _group(name, title, figures))["rows"]
        ],
        "tiers": _tiers(figures),
        "retries": {kind: n for kind, n in figures.keyed("retries").items() if kind is not None},
        "spark": {
            name: _line([day.value(figure, None, key) for _, day in days], 0.0, None)
            for name, figure, key in (
                ("invalid_rate", "invalid_rate", None),
                ("latency", "latency_ms", "p95"),
                ("cost", "cost_usd", None),
                ("rate", "answers_per_second", None),
            )
        },
    }


def _dimensions(
    fields: Sequence[str],
    figures: Figures,
    days: Sequence[tuple[str, Figures]],
    drifted: Sequence[str],
) -> list[dict[str, Any]]:
    series = {name: [day.value("mean", name) for _, day in days] for name in fields}
    # One span for all the sparklines of the table, so that equal slopes are equal changes.
    spans = [max(known) - min(known) for s in series.values() if (known := _known(s))]
    span = max([0.5, *spans])
    rows = []
    for name in fields:
        known = _known(series[name])
        middle = (max(known) + min(known)) / 2 if known else 0.0
        rows.append(
            {
                "name": name,
                "mean": figures.value("mean", name),
                "n": figures.n("mean", name),
                "change": _change(figures, name),
                "now": _stack(figures.keyed("share", name)),
                "before": _stack(figures.keyed("trailing_share", name)),
                "spark": _line(series[name], middle - span / 2, middle + span / 2),
                "psi": figures.value("psi", name),
                "note": figures.note("psi", name),
                "drifted": name in drifted,
            }
        )
    return rows


def _change(figures: Figures, name: str) -> float | None:
    now, before = figures.value("mean", name), figures.value("trailing_mean", name)
    return None if now is None or before is None else now - before


def _stack(shares: Mapping[str | None, float | None]) -> list[dict[str, Any]]:
    """Adjoining segments, in per cent of the width; `position` runs from -1, worst, to 1, best."""
    values = [(share or 0.0) * 100 for share in shares.values()]
    last = max(len(values) - 1, 1)
    return [
        {"name": name, "x": end - width, "width": width, "position": 2 * i / last - 1}
        for i, (name, width, end) in enumerate(zip(shares, values, accumulate(values), strict=True))
    ]


def _histogram(figures: Figures) -> list[dict[str, Any]]:
    """Columns of the score's distribution; heights in per cent of the tallest of day and window."""
    now, before = figures.keyed("share", SCORE), figures.keyed("trailing_share", SCORE)
    tallest = max([*_known(now.values()), *_known(before.values())], default=0.0) or 1.0
    return [
        {
            "name": name,
            "edge": str(name).split(" to ")[0],
            "share": share,
            "height": 100 * (share or 0.0) / tallest,
            "before": None if before.get(name) is None else 100 * (before[name] or 0.0) / tallest,
        }
        for name, share in now.items()
    ]


def _trend(days: Sequence[tuple[str, Figures]]) -> dict[str, Any] | None:
    """Mean and quartiles of the score over the days, in per cent of a box with halves as bounds."""
    means = [figures.value("mean", SCORE) for _, figures in days]
    lower = [figures.value("p25", SCORE) for _, figures in days]
    upper = [figures.value("p75", SCORE) for _, figures in days]
    known = _known([*means, *lower, *upper])
    if not known:
        return None
    low, high = floor(min(known) * 2) / 2, ceil(max(known) * 2) / 2
    high = high if high > low else low + 0.5
    bottom, top = (_line(values, low, high)["runs"] for values in (lower, upper))
    return {
        "line": _line(means, low, high),
        # A day without a scored record breaks the band as it breaks the line.
        "bands": [[*above, *reversed(below)] for above, below in zip(top, bottom, strict=True)],
        "low": low,
        "high": high,
        "days": [
            {"day": day, "mean": mean, "n": figures.n("mean", SCORE)}
            for (day, figures), mean in zip(days, means, strict=True)
        ],
    }


def _line(values: Sequence[float | None], low: float, high: float | None) -> dict[str, Any]:
    """A line in a 100 by 100 box, `low` at the bottom: dots, and unbroken runs of them as points.

    Without `high` the box ends at the largest value. A day without a value breaks the line.
    """
    top = max(_known(values), default=1.0) if high is None else high
    scale = (top - low) or 1.0
    step = 100 / max(len(values) - 1, 1)
    runs: list[list[tuple[float, float]]] = [[]]
    for index, value in enumerate(values):
        if value is None:
            runs.append([])
        else:
            x = index * step if len(values) > 1 else 50.0
            runs[-1].append((round(x, 2), round(100 - 100 * (value - low) / scale, 2)))
    return {
        "runs": [run for run in runs if run],
        "dots": [dot for run in runs for dot in run],
        "values": list(values),
    }


def _label(
    name: str,
    figures: Figures,
    nesting: tuple[str, Mapping[str, str]] | None,
    drifted: bool,
) -> dict[str, Any]:
    """The most frequent values of a label, and under each the most frequent nested ones."""
    shares, before = figures.keyed("share", name), figures.keyed("trailing_share", name)
    ordered = sorted(shares, key=lambda value: (-(shares[value] or 0.0), str(value)))
    child, parents = nesting or (None, {})
    inner: dict[str | None, list[tuple[str | None, float]]] = {}
    if child is not None:
        for value, share in figures.keyed("share", child).items():
            inner.setdefault(parents.get(str(value)), []).append((value, share or 0.0))
    return {
        "name": name,
        "child": child,
        "drifted": drifted,
        "psi": figures.value("psi", name),
        "note": figures.note("psi", name),
        "n": figures.n("psi", name),
        "rows": [
            {
                "value": value,
                "share": shares[value] or 0.0,
                "before": before.get(value),
                # Shares of the nested values are of all records; shown as a part of their parent.
                "inner": [
                    (nested, share / (shares[value] or 1.0))
                    for nested, share in sorted(
                        inner.get(value, []), key=lambda item: (-item[1], str(item[0]))
                    )[:3]
                ],
            }
            for value in ordered[:SHOWN]
        ],
        "others": len(ordered[SHOWN:]),
        "others_share": sum(shares[value] or 0.0 for value in ordered[SHOWN:]),
        "widest": max([*_known(shares.values()), *_known(before.values())], default=1.0) or 1.0,
    }


def _group(name: str, title: str, figures: Figures) -> dict[str, Any]:
    means = figures.keyed(f"mean_by_{name}", SCORE)
    known = _known([*means.values(), figures.value("mean", SCORE)])
    low, high = (floor(min(known)), ceil(max(known))) if known else (0, 1)
    width = (high - low) or 1
    overall = figures.value("mean", SCORE)
    return {
        "title": title,
        "low": low,
        "high": low + width,
        "overall": None if overall is None else 100 * (overall - low) / width,
        "rows": [
            {
                "name": key,
                "mean": mean,
                "n": figures.n(f"mean_by_{name}", SCORE, key),
                "x": None if mean is None else 100 * (mean - low) / width,
            }
            for key, mean in list(means.items())[:SHOWN]
        ],
        "others": max(len(means) - SHOWN, 0),
    }


def _tiers(figures: Figures) -> dict[str, Any] | None:
    """What other evaluators decided, and what escalating bought; None where no others are asked."""
    decided = figures.keyed("decided")
    if not decided:
        return None
    rows = []
    for about in figures.fields("changed"):
        name = "accuracy" if about in figures.fields("accuracy_after") else "mae"
        before, after = (figures.value(f"{name}_{when}", about) for when in ("before", "after"))
        rows.append(
            {
                "field": about,
                "changed": figures.value("changed", about),
                "share": name == "accuracy",
                "before": before,
                "after": after,
                "n": figures.n(f"{name}_after", about),
            }
        )
    reasons = {key: n for key, n in figures.keyed("escalated").items() if key is not None and n}
    return {
        "decided": decided,
        "reasons": sorted(reasons.items(), key=lambda item: -(item[1] or 0)),
        "rows": rows,
        "labelled": any(row["n"] for row in rows),
    }


def _known(values: Any) -> list[float]:
    return [value for value in values if value is not None]


@cache
def environment() -> Environment:
    """Templates that escape everything and refuse names nobody set."""
    environment = Environment(
        loader=PackageLoader("gavel.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalized,
    )
    environment.filters |= {
        "count": _count,
        "percent": _percent,
        "decimal": _decimal,
        "signed": _signed,
        "money": _money,
        "duration": _duration,
        "words": _words,
        "cut": _cut,
    }
    return environment


_VISIBLE = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"}
_VISIBLE |= {0x7F: 0x2421}
# Characters that reorder what surrounds them, and halves of characters, which no file can hold.
_VISIBLE |= dict.fromkeys(
    [0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD
)
_VISIBLE |= dict.fromkeys(range(0x80, 0xA0), 0xFFFD)
_VISIBLE |= dict.fromkeys(range(0xD800, 0xE000), 0xFFFD)


def _finalized(value: Any) -> Any:
    """Every expression of a template passes here: null is a dash, odd characters become visible."""
    if value is None:
        return "\N{EN DASH}"
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return value.translate(_VISIBLE)


def _cut(value: object, longest: int = LONGEST_NAME) -> str | None:
    if value is None:
        return None
    text = str(value)
    extra = len(text) - longest
    return text if extra <= 0 else f"{text[:longest]}… ({extra:,} more characters)"


def _words(name: str) -> str:
    return str(_cut(name)).replace("_", " ")


def _count(value: float | None) -> str | None:
    return None if value is None else f"{value:,.0f}"


def _percent(value: float | None, digits: int = 1) -> str | None:
    if value is None:
        return None
    smallest = 10.0 ** (-digits - 2)
    if 0 < value < smallest:
        return f"< {smallest:.{digits}%}"
    # A share short of the whole is not to read as the whole.
    return f"{min(value, 1 - smallest) if value < 1 else value:.{digits}%}"


def _decimal(value: float | None, digits: int = 2) -> str | None:
    return None if value is None else f"{value:,.{digits}f}"


def _signed(value: float | None, digits: int = 2) -> str | None:
    return None if value is None else f"{value:+.{digits}f}".replace("-", "\N{MINUS SIGN}")


def _money(value: float | None) -> str | None:
    if value is None:
        return None
    return f"${value:,.2f}" if value == 0 or value >= 0.01 else f"${value:.2g}"


def _duration(milliseconds: float | None) -> str | None:
    if milliseconds is None:
        return None
    if milliseconds >= 1000:
        return f"{milliseconds / 1000:,.2f} s"
    return f"{milliseconds:.0f} ms" if milliseconds >= 10 else f"{milliseconds:.2g} ms"
