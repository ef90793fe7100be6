"""Panels: the verdicts of several evaluators on one record, made one, and how far they are apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import polars as pl

from gavel.judge.rubric import Dimension, Rubric

Aggregate = Literal["mean", "median", "majority"]


def aggregated(rubric: Rubric, votes: pl.DataFrame, how: Aggregate) -> pl.DataFrame:
    """One row a row_id of `votes`: every field made one, the mean `confidence`, `votes`, `disagreement`.

    `votes` has one row a record and evaluator whose verdict is valid; where `place` is lower, the evaluator
    is named earlier. Numbers go by `how`, labels by majority, nested ones among those who agree with the
    winning parent; a tie goes to the value whose first supporter is named earlier. `disagreement` is the mean
    over the fields of spread / range for numbers and of 1 - share of the most frequent value for labels, from
    0 to 1; null with fewer than two votes.
    """
    joined = votes.group_by("row_id").agg(
        pl.len().cast(pl.Int32).alias("votes"), pl.col("confidence").mean()
    )
    for dimension in rubric.dimensions:
        joined = _left(joined, _number(votes, dimension, how))
    for label in rubric.labels:
        winner = _majority(votes, label.name)
        joined = _left(joined, winner)
        if label.nested is not None:
            agreeing = votes.join(winner, on=["row_id", label.name], how="semi")
            joined = _left(joined, _majority(agreeing, label.nested))
    apart = list(_spreads(rubric, votes))
    for spread in apart:
        joined = _left(joined, spread)
    names = [spread.columns[-1] for spread in apart]
    disagreement = pl.when(pl.col("votes") >= 2).then(pl.mean_horizontal(names))
    return joined.with_columns(disagreement.alias("disagreement")).drop(names).sort("row_id")


def _left(records: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    return records.join(found, on="row_id", how="left")


def _number(votes: pl.DataFrame, dimension: Dimension, how: Aggregate) -> pl.DataFrame:
    if how == "majority":
        return _majority(votes, dimension.name)
    column = pl.col(dimension.name)
    return votes.group_by("row_id").agg(column.mean() if how == "mean" else column.median())


def _majority(votes: pl.DataFrame, field: str) -> pl.DataFrame:
    """The most frequent value of `field` of each record; nulls do not vote."""
    counts = (
        votes.filter(pl.col(field).is_not_null())
        .group_by("row_id", field)
        .agg(pl.len().alias("supporters"), pl.col("place").min())
    )
    ordered = counts.sort(["row_id", "supporters", "place"], descending=[False, True, False])
    return ordered.unique("row_id", keep="first", maintain_order=True).select("row_id", field)


def _spreads(rubric: Rubric, votes: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """How far the votes on each field are apart, as a column of its own; null where nobody has a value."""
    for dimension in rubric.dimensions:
        column = pl.col(dimension.name)
        spread = (column.max() - column.min()) / (dimension.max - dimension.min)
        yield votes.group_by("row_id").agg(spread.alias(f"apart {dimension.name}"))
    for name in rubric.label_values:
        shares = votes.group_by("row_id", name).agg(pl.len().alias("n"))
        apart = 1 - pl.col("n").max() / pl.col("n").sum()
        yield shares.group_by("row_id").agg(apart.alias(f"apart {name}"))


def panel_name(members: Sequence[str]) -> str:
    """What a panel is called where the name of an evaluator stands."""
    return "+".join(members)
