"""The figures of alignment: agreement with people, people with each other, corrected means, bias, calibration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gavel.agreement.annotators import Level, human_ceiling, krippendorff_alpha, pairs
from gavel.agreement.bias import Effect, family, group_bias, length_bias
from gavel.agreement.bootstrap import Difference, Estimate
from gavel.agreement.calibration import Calibration, calibration, recalibration
from gavel.agreement.dimensions import dimension_agreement
from gavel.agreement.labels import label_agreement
from gavel.agreement.prediction_powered import corrected_mean, effective_size
from gavel.alignment.evidence import PUBLISHED, SCORE, Evidence, published
from gavel.alignment.population import read_scores
from gavel.alignment.schema import FIGURES
from gavel.store.files import Store

LEAST_IN_A_GROUP = 10
"""Labelled records that a group and the rest must each have before a bias is looked for."""

MOST_DAYS = 60
"""The most recent days whose means are corrected."""

PLOTTED = (
    *("accuracy", "macro_f1", "pearson", "mae", "bias", "quadratic_kappa", "ece", "brier"),
    *("alpha_nominal", "alpha_interval", "corrected_mean", "naive_mean"),
    *("corrected_share", "naive_share"),
)
"""Figures without a key that a materialisation carries, for the UI to plot."""

Rows = Iterator[dict[str, Any]]


def metrics(gathered: Sequence[Evidence], store: Store) -> pa.Table:
    """Agreement with people, of people with each other, corrected means and biases of every field.

    Of a task that several evaluators scored also the agreement and the corrected means of what is published.
    """
    rows: list[dict[str, Any]] = []
    for found in gathered:
        for field in found.fields:
            rows += _agreement(found, field)
            rows += _between_people(found, field)
            rows += _ceiling(found, field)
        rows += _corrected(found, store)
        rows += _biases(found)
    for whole in published(gathered):
        for field in whole.fields:
            rows += _agreement(whole, field)
        rows += _corrected(whole, store)
    return pa.Table.from_pylist(rows, schema=FIGURES)


def calibrations(gathered: Iterable[Evidence]) -> pa.Table:
    """Whether the evaluator's confidence in a verdict says how often a field of it is right."""
    rows = [
        row for found in gathered for field in found.fields for row in _calibrated(found, field)
    ]
    return pa.Table.from_pylist(rows, schema=FIGURES)


def plotted(table: pa.Table) -> dict[str, float]:
    """Figures for the UI to plot over time: task/field/figure, of what is published.

    A table without that has it of the evaluator with most labels.
    """
    rows = table.to_pylist()
    labels: Counter[tuple[str, str]] = Counter()
    for row in rows:
        if row["figure"] in PLOTTED and row["key"] is None:
            labels[row["task"], row["evaluator"]] += row["n"]
    main = {
        task: evaluator
        for (task, evaluator), _ in sorted(
            labels.items(), key=lambda entry: (entry[0][1] == PUBLISHED, entry[1])
        )
    }
    return {
        f"{row['task']}/{row['field']}/{row['figure']}": row["value"]
        for row in rows
        if row["figure"] in PLOTTED
        and row["key"] is None
        and row["value"] is not None
        and row["evaluator"] == main[row["task"]]
    }


def _row(
    found: Evidence,
    field: str,
    figure: str,
    made: Estimate | Difference,
    key: str | None = None,
    excluded: int = 0,
    note: str | None = None,
) -> dict[str, Any]:
    notes = [text for text in (made.reason, note) if text]
    return {
        "task": found.rubric.task,
        "field": field,
        "evaluator": found.evaluator,
        "figure": figure,
        "key": key,
        "value": made.value,
        "low": made.low,
        "high": made.high,
        "n": made.n,
        "clusters": made.clusters if isinstance(made, Estimate) else None,
        "excluded": excluded,
        "note": "; ".join(notes) or None,
    }


def _agreement(found: Evidence, field: str) -> Rows:
    """The evaluator against what people say."""
    items = found.row_ids(field)
    reference = [found.references[field][row_id].value for row_id in items]
    given = [found.given(field, row_id) for row_id in items]
    clusters = found.clusters(items)
    weights, note = found.weights(field, items)
    classes = found.classes(field)
    if classes is None:
        numbers = dimension_agreement(reference, given, clusters, found.resampling, weights)  # type: ignore[arg-type]
        for name, made in numbers.figures.items():
            yield _row(found, field, name, made, None, numbers.excluded, note)
        expected = [found.expected(field, row_id) for row_id in items]
        if any(value is not None for value in expected):
            finer = dimension_agreement(reference, expected, clusters, found.resampling, weights)  # type: ignore[arg-type]
            for name, made in finer.figures.items():
                yield _row(found, field, f"expected_{name}", made, None, finer.excluded, note)
        return
    agreed = label_agreement(reference, given, clusters, classes, found.resampling, weights)  # type: ignore[arg-type]
    absent = None
    if agreed.absent:
        absent = f"{len(agreed.absent)} classes absent from the labels: {', '.join(agreed.absent)}"
    for name, made in agreed.figures.items():
        notes = [text for text in (note, absent if name == "macro_f1" else None) if text]
        yield _row(found, field, name, made, None, agreed.excluded, "; ".join(notes))
    for each in agreed.classes:
        for name, made in (("precision", each.precision), ("recall", each.recall), ("f1", each.f1)):
            count = each.predicted if name == "precision" else each.support
            if each.support or each.predicted:
                own = Estimate(made.value, made.low, made.high, count, made.clusters, made.reason)
                yield _row(found, field, name, own, each.name, agreed.excluded, note)
    for (truth, said), count in agreed.confusion.items():
        yield _row(
            found, field, "confusion", Estimate(float(count), n=agreed.n), f"{truth} \u2192 {said}"
        )


def _between_people(found: Evidence, field: str) -> Rows:
    """People among themselves, over the records of this evaluator."""
    items = found.row_ids(field)
    ratings: dict[str, Mapping[str, Any]] = {
        row_id: found.references[field][row_id].by_annotator for row_id in items
    }
    clusters = dict(zip(items, found.clusters(items), strict=True))
    for pair in pairs(ratings, clusters, found.resampling):
        yield _row(found, field, "kappa_pair", pair.kappa, f"{pair.first} / {pair.second}")
    levels: tuple[Level, ...] = ("nominal",) if found.classes(field) else ("ordinal", "interval")
    for level in levels:
        alpha = krippendorff_alpha(ratings, clusters, level, found.resampling)
        alone = sum(len(given) < 2 for given in ratings.values())
        yield _row(found, field, f"alpha_{level}", alpha, None, alone)
    settled = Counter(found.references[field][row_id].settled for row_id in items)
    for how, count in sorted(settled.items()):
        yield _row(found, field, "settled_by", Estimate(float(count), n=len(items)), how)


def _ceiling(found: Evidence, field: str) -> Rows:
    """One person against the others, the evaluator against the same, and the gap."""
    items = found.row_ids(field)
    ratings = {row_id: found.references[field][row_id].by_annotator for row_id in items}
    given = {row_id: found.given(field, row_id) for row_id in items}
    clusters = dict(zip(items, found.clusters(items), strict=True))
    ceiling = human_ceiling(ratings, given, clusters, found.classes(field), found.resampling)
    excluded = ceiling.ties + ceiling.alone
    for prefix, figures in (
        ("ceiling", ceiling.people),
        ("ceiling_evaluator", ceiling.evaluator),
        ("ceiling_gap", ceiling.gap),
    ):
        for name, made in figures.items():
            # A person's bias against the others is 0 over all of them, whatever they say.
            if name != "bias":
                yield _row(found, field, f"{prefix}_{name}", made, None, excluded)


def _corrected(found: Evidence, store: Store) -> Rows:
    """Daily means as people would give them, beside the evaluator's own; of a label, a value's share."""
    settings = found.suite.alignment
    shares = {name: v for name, v in settings.acceptable.items() if name in found.fields}
    fields = [*found.numbers, *shares]
    if not fields:
        return
    columns = ["row_id", "conversation_id", "evaluator", *fields]
    population = read_scores(store, found.rubric.task, columns)
    if found.evaluator != PUBLISHED:
        population = population.filter(pc.field("evaluator") == found.evaluator)
    days = sorted(set(population["day"].to_pylist()))[-MOST_DAYS:]

    bounds = {d.name: (d.min, d.max) for d in found.rubric.dimensions}
    bounds[SCORE] = min(low for low, _ in bounds.values()), max(high for _, high in bounds.values())

    def number(field: str, value: Any) -> float:
        return float(value == shares[field] if field in shares else value)

    for field in fields:
        what = "share" if field in shares else "mean"
        scored = population.filter(pc.field(field).is_valid())
        labelled = found.settled(field)
        of_all = found.weights(field, labelled)
        covered, left_out = scored, None
        if of_all[0] is not None:
            days_of = pa.array(sorted(found.covered(labelled)), pa.string())
            covered = scored.filter(pc.is_in(scored["day"], days_of))
            if len(covered) < len(scored):
                left_out = f"{len(scored) - len(covered):,} records are of days that nobody has labelled: left out"
        day_of = dict(zip(scored["row_id"].to_pylist(), scored["day"].to_pylist(), strict=True))
        for day in [None, *days]:
            if day is None:
                here, used, weighted = covered, labelled, of_all
            else:
                here = scored.filter(pc.field("day") == day)
                used = [row_id for row_id in labelled if day_of[row_id] == day]
                weighted = found.weights(field, used)
            size, worth = _worth(
                len(used), weighted[0], "records" if day is None else "records of the day"
            )
            enough = day is None or size >= settings.least_a_day
            if not enough:
                used, weighted = labelled, of_all
            weights, unweighted = weighted
            made = corrected_mean(
                [number(field, found.references[field][row_id].value) for row_id in used],
                [number(field, found.given(field, row_id)) for row_id in used],
                [number(field, value) for value in here[field].to_pylist()],
                labelled_clusters=found.clusters(used),
                all_clusters=pc.coalesce(here["conversation_id"], here["row_id"]).to_pylist(),
                weights=weights,
                confidence=settings.confidence,
                power=None if enough else 1.0,
                within=(0.0, 1.0) if field in shares else bounds[field],
            )
            told = None if enough else f"{worth}: corrected by the errors of all days"
            if enough and size < settings.least_a_day and made.corrected.low is not None:
                told = f"{worth}: the interval may be too short"
            note = "; ".join(filter(None, [told, unweighted, None if day else left_out])) or None
            spoken_of = [
                row_id
                for row_id in found.row_ids(field)
                if day is None or not enough or day_of.get(row_id, day) == day
            ]
            excluded = len(spoken_of) - len(used)
            yield _row(found, field, f"corrected_{what}", made.corrected, day, excluded, note)
            yield _row(found, field, f"naive_{what}", made.naive, day)
            if enough:
                yield _row(found, field, f"people_{what}", made.people, day, excluded, unweighted)


def _worth(count: int, weights: Sequence[float] | None, what: str) -> tuple[float, str]:
    """How many labels of equal weight `count` weighted ones are worth, and how that is said."""
    size = effective_size(weights or [1.0] * count)
    said = f"{count} labelled {what if count != 1 else what.replace('records', 'record')}"
    if round(size) < count:
        said += f", which count as {size:.0f} by their unequal chances"
    return size, said


def _biases(found: Evidence) -> Rows:
    """What should not matter, the human score held fixed; of the score, or else of each dimension."""
    for field in [SCORE] if SCORE in found.numbers else found.numbers:
        items = found.settled(field)
        given = [float(found.given(field, row_id)) for row_id in items]
        human = [float(found.references[field][row_id].value) for row_id in items]  # type: ignore[arg-type]
        records = [found.records[row_id] for row_id in items]
        clusters = found.clusters(items)
        lengths = [len(row["response"] or "") for row in records]
        made = length_bias(given, human, lengths, clusters, found.resampling)
        yield from _effect(found, field, made, "twice the length of the response")
        for column in found.suite.alignment.bias_by:
            values = [row.get(column) for row in records]
            for value, count in sorted(Counter(v for v in values if v is not None).items()):
                if LEAST_IN_A_GROUP <= count <= len(items) - LEAST_IN_A_GROUP:
                    inside = [v == value for v in values]
                    name = f"{column}={value}"
                    made = group_bias(given, human, inside, clusters, found.resampling, name)
                    yield from _effect(found, field, made, f"{column} {value}")
        own = [
            bool(family(row["model"] or ""))
            and family(row["model"] or "") == family(row["agent_version"] or "")
            for row in records
        ]
        made = group_bias(given, human, own, clusters, found.resampling, "own family")
        yield from _effect(found, field, made, "an answer by the evaluator's own model family")


def _effect(found: Evidence, field: str, made: Effect, cause: str) -> Rows:
    effect = made.effect
    sentence = None
    if effect.value is not None and effect.low is not None and effect.high is not None:
        interval = f"{effect.value:+.2f} points ({effect.low:+.2f} to {effect.high:+.2f})"
        if made.sure:
            kind = "favoured" if effect.value > 0 else "put at a disadvantage"
            sentence = f"at the same human score, {cause} is {kind}: {interval}"
        else:
            sentence = f"no bias by {cause} is seen beyond chance: {interval}"
    yield _row(found, field, "bias_effect", effect, made.name, note=sentence)
    yield _row(found, field, "bias_size", made.size, made.name)


def _calibrated(found: Evidence, field: str) -> Rows:
    """Confidence against being right: the same label, or a number within reach."""
    within = found.suite.alignment.right_within
    confidence: list[float] = []
    right: list[bool] = []
    kept: list[str] = []
    items = found.row_ids(field)
    for row_id in items:
        reference, given = found.references[field][row_id].value, found.given(field, row_id)
        sure = found.confidence(field, row_id)
        if reference is None or given is None or sure is None:
            continue
        kept.append(row_id)
        confidence.append(sure)
        if isinstance(reference, str):
            right.append(reference == given)
        else:
            right.append(abs(reference - given) <= within + 1e-9)
    clusters = found.clusters(kept)
    weights, note = found.weights(field, kept)
    made = calibration(confidence, right, clusters, found.resampling, weights)
    yield from _calibration_rows(found, field, made, "", len(items) - len(kept), note)
    again = recalibration(confidence, right, clusters, found.resampling, weights)
    if again.before is None or again.after is None or again.brier_gain is None:
        yield _row(found, field, "brier_gain", Estimate(None, n=len(kept), reason=again.reason))
        return
    yield from _calibration_rows(found, field, again.before, "_held_out", 0, note)
    yield from _calibration_rows(found, field, again.after, "_recalibrated", 0, note)
    yield _row(found, field, "brier_gain", again.brier_gain, note=note)
    for at, to in again.knots:
        yield _row(found, field, "recalibrated_confidence", Estimate(to, n=len(kept)), f"{at:.4g}")


def _calibration_rows(
    found: Evidence,
    field: str,
    made: Calibration,
    suffix: str,
    excluded: int,
    note: str | None,
) -> Rows:
    for name, each in (("ece", made.ece), ("brier", made.brier), ("overconfidence", made.gap)):
        yield _row(found, field, f"{name}{suffix}", each, None, excluded, note)
    for bin_ in made.bins:
        key = f"{bin_.low:.1f} to {bin_.high:.1f}"
        right = bin_.right
        own = Estimate(right.value, right.low, right.high, bin_.n, right.clusters, right.reason)
        yield _row(found, field, f"reliability{suffix}", own, key, note=note)
        mean = Estimate(bin_.confidence, n=bin_.n)
        yield _row(found, field, f"mean_confidence{suffix}", mean, key, note=note)
