"""What holds for every row of the quality figures and of the audit."""

import pandera.polars as pandera
import polars as pl

KINDS = ("validation_failure", "retry", "regeneration", "publication")
"""The kinds of events in the audit."""

QUALITY_VALID = pandera.DataFrameSchema(
    {
        "task": pandera.Column(pl.String),
        "day": pandera.Column(pl.String, pandera.Check.str_matches(r"^\d{4}-\d{2}-\d{2}$")),
        "figure": pandera.Column(pl.String),
        # An undefined figure is null with a note; NaN would look like a number.
        "value": pandera.Column(
            pl.Float64,
            pandera.Check(lambda data: data.lazyframe.select(pl.col(data.key).is_finite())),
            nullable=True,
        ),
        "n": pandera.Column(pl.Int64, pandera.Check.ge(0)),
    },
    name="quality",
)

EVENTS_VALID = pandera.DataFrameSchema(
    {
        "day": pandera.Column(pl.String),
        "task": pandera.Column(pl.String),
        "kind": pandera.Column(pl.String, pandera.Check.isin(KINDS)),
        "attempt": pandera.Column(pl.Int32, pandera.Check.ge(1), nullable=True),
    },
    name="audit/events",
)
