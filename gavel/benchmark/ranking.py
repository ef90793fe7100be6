"""Ranking systems from pairs: win rates, Bradley-Terry strengths, contradictions, agreement with people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import pandera.polars as pandera
import polars as pl
import pyarrow as pa

from gavel.agreement.bias import position_bias
from gavel.agreement.bootstrap import Estimate, Floats, Resampling, by_cluster, estimate
from gavel.agreement.bradley_terry import strengths
from gavel.agreement.labels import label_agreement
from gavel.benchmark.pairs import TIE, Outcome, of_people, outcomes
from gavel.benchmark.table import one_of
from gavel.judge.opinions import winners

RANKING = pa.schema(
    [
        *((name, pa.string()) for name in ("evaluator", "figure", "first", "second")),
        *((name, pa.float64()) for name in ("value", "low", "high")),
        ("n", pa.int64()),
        *((name, pa.string()) for name in ("note", "signature")),
    ]
)
"""One row an evaluator and figure, about a system (`first`) or a pair of them.

- win_rate: points of the first over the pairs, against `second` or against all: 1 where both orders prefer it,
  0 where both prefer the other, what lies between where they differ or see a tie.
- strength: log strength after Bradley and Terry, mean 0. rank: 1 is the strongest.
- wins, ties, losses: pairs that both orders decide so; whatever they contradict each other on is a tie.
- inconsistent: pairs whose two orders say different things; inconsistent_rate: their share.
- unresolved: pairs without a valid verdict in both orders; they count nowhere else.
- position_bias: how often the answer shown first is preferred, less one half.
- accuracy, kappa: the winner against that of most people.
"""

_FINITE = pandera.Check(lambda data: data.lazyframe.select(pl.col(data.key).is_finite()))
RANKING_VALID = pandera.DataFrameSchema(
    {
        **{name: pandera.Column(pl.String) for name in ("evaluator", "figure", "signature")},
        **{n: pandera.Column(pl.Float64, _FINITE, nullable=True) for n in ("value", "low", "high")},
        "n": pandera.Column(pl.Int64, pandera.Check.ge(0)),
    }
)
"""What every row of the ranking satisfies."""

PEOPLE = "people"
"""Who stands where an evaluator does in the ranking that people's preferences give."""

_UNBOUNDED = (
    "some systems were never beaten by, or never compared with, the others: no finite strength fits"
)


def ranking(
    questions: pl.DataFrame,
    verdicts: Mapping[str, pl.DataFrame],
    pairs_hash: str,
    resampling: Resampling,
) -> pa.Table:
    """The ranking of people, where they gave preferences, and of each evaluator by its `verdicts`."""
    rows: list[dict[str, Any]] = []
    people = of_people(outcomes(questions, {}))
    shared = (
        f"pairs:{pairs_hash[:12]}.{len(people)}|resamples:{resampling.resamples}"
        f"|confidence:{resampling.confidence:g}|seed:{resampling.seed}|gavel:{version('gavel')}"
    )
    if any(outcome.points is not None for outcome in people):
        rows += ranking_rows(PEOPLE, people, resampling, f"evaluator:{PEOPLE}|{shared}")
    for name, said in verdicts.items():
        found = outcomes(questions, dict(winners(said).select("row_id", "preference").iter_rows()))
        signature = (
            f"evaluator:{name}|{shared}|model:{one_of(said, 'model')}|rev:{one_of(said, 'model_revision')}"
            f"|rubric:{one_of(said, 'prompt_version')}.{one_of(said, 'rubric_hash')[:12]}"
            f"|config:{one_of(said, 'config_hash')[:12]}"
        )
        rows += ranking_rows(name, found, resampling, signature)
    return pa.Table.from_pylist(rows, schema=RANKING)


def ranking_rows(
    evaluator: str, found: Sequence[Outcome], resampling: Resampling, signature: str
) -> Iterator[dict[str, Any]]:
    """The rows of `RANKING` for one evaluator; intervals resample prompts."""

    def row(
        figure: str, estimated: Estimate, first: str | None = None, second: str | None = None
    ) -> dict[str, Any]:
        note = estimated.reason
        if note is not None:
            note = f"{'undefined' if estimated.value is None else 'no interval'}: {note}"
        return {
            "evaluator": evaluator,
            "figure": figure,
            "first": first,
            "second": second,
            "value": estimated.value,
            "low": estimated.low,
            "high": estimated.high,
            "n": estimated.n,
            "note": note,
            "signature": signature,
        }

    answered = [outcome for outcome in found if outcome.points is not None]
    unresolved = len(found) - len(answered)
    yield row("unresolved", Estimate(float(unresolved), n=len(found)))
    yield from (row(name, value) for name, value in _consistency(answered, resampling))
    systems = sorted({name for outcome in found for name in (outcome.one, outcome.other)})
    for one, other in sorted({(outcome.one, outcome.other) for outcome in found}):
        pairs = [o for o in answered if (o.one, o.other) == (one, other)]
        yield row("win_rate", _win_rate(pairs, one, resampling), one, other)
        for figure, winner in (("wins", one), ("ties", TIE), ("losses", other)):
            count = sum(outcome.winner == winner for outcome in pairs)
            yield row(figure, Estimate(float(count), n=len(pairs)), one, other)
        for name, value in _consistency(pairs, resampling):
            yield row(name, value, one, other)
    for system in systems:
        own = [o for o in answered if system in (o.one, o.other)]
        yield row("win_rate", _win_rate(own, system, resampling), system)
    fitted = _strengths(answered, systems, resampling)
    for system, strength in zip(systems, fitted, strict=True):
        yield row("strength", strength, system)
    known = [s.value for s in fitted if s.value is not None]
    for system, strength in zip(systems, fitted, strict=True):
        if strength.value is not None:
            # Equal strengths are fitted up to the last digits.
            above = sum(other > strength.value + 1e-6 for other in known)
            rank = float(1 + above)
            yield row("rank", Estimate(rank, n=strength.n), system)
    if evaluator != PEOPLE:
        choices = [(value, o.item) for o in answered for value in o.shown_first]
        shown, items = [c for c, _ in choices], [i for _, i in choices]
        yield row("position_bias", position_bias(shown, items, resampling).effect)
        yield from (row(name, value) for name, value in _with_people(answered, resampling))


def _share(sums: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(sums[..., 1] / sums[..., 0])


def _mean(values: Sequence[float], items: Sequence[str], resampling: Resampling) -> Estimate:
    if not values:
        return Estimate(None, reason="no pair has a valid verdict in both orders")
    features = np.stack([np.ones(len(values)), np.asarray(values, np.float64)], axis=1)
    return estimate(by_cluster(features, items), _share, ["no pairs"], resampling, len(values))[0]


def _consistency(
    pairs: Sequence[Outcome], resampling: Resampling
) -> Iterator[tuple[str, Estimate]]:
    wrong = [float(not outcome.consistent) for outcome in pairs]
    yield "inconsistent", Estimate(sum(wrong), n=len(pairs))
    yield "inconsistent_rate", _mean(wrong, [outcome.item for outcome in pairs], resampling)


def _win_rate(pairs: Sequence[Outcome], system: str, resampling: Resampling) -> Estimate:
    points = [_points(outcome, system) for outcome in pairs]
    return _mean(points, [outcome.item for outcome in pairs], resampling)


def _points(outcome: Outcome, system: str) -> float:
    assert outcome.points is not None, "only answered pairs have points"
    return outcome.points if outcome.one == system else 1 - outcome.points


def _strengths(
    pairs: Sequence[Outcome], systems: Sequence[str], resampling: Resampling
) -> list[Estimate]:
    """The log strength of each system, with its interval."""
    count = len(systems)
    if not pairs:
        why = "no pair has a valid verdict in both orders"
        return [Estimate(None, reason=why) for _ in systems]
    place = {system: n for n, system in enumerate(systems)}
    wins = np.zeros((len(pairs), count, count))
    for n, outcome in enumerate(pairs):
        one, other = place[outcome.one], place[outcome.other]
        wins[n, one, other] = _points(outcome, outcome.one)
        wins[n, other, one] = _points(outcome, outcome.other)
    sums = by_cluster(wins.reshape(len(pairs), -1), [outcome.item for outcome in pairs])

    def value(sums: Floats) -> Floats:
        return strengths(sums.reshape(*sums.shape[:-1], count, count))

    return estimate(sums, value, [_UNBOUNDED] * count, resampling, len(pairs))


def _with_people(
    pairs: Sequence[Outcome], resampling: Resampling
) -> Iterator[tuple[str, Estimate]]:
    """How often the winner is that of people, and Cohen's kappa; a pair without a majority is left out."""
    kept = [outcome for outcome in pairs if outcome.people is not None]
    if not kept:
        why = "people gave no preference on a pair with a valid verdict in both orders"
        yield from ((name, Estimate(None, reason=why)) for name in ("accuracy", "kappa"))
        return
    found = label_agreement(
        [_side(outcome, outcome.people) for outcome in kept],
        [_side(outcome, outcome.winner) for outcome in kept],
        [outcome.item for outcome in kept],
        ("one", "other", TIE),
        resampling,
    )
    yield from ((name, found.figures[name]) for name in ("accuracy", "kappa"))


def _side(outcome: Outcome, winner: str | None) -> str:
    return {outcome.one: "one", outcome.other: "other"}.get(winner or TIE, TIE)
