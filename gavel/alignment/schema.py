"""The tables of alignment, and the reasons why a label cannot be used."""

from __future__ import annotations

import pandera.polars as pandera
import polars as pl
import pyarrow as pa

REASONS = {
    "unreadable_file": "the whole file cannot be read, or has no column row_id",
    "unparseable_line": "the row is no JSON object, or its fields do not match the header",
    "missing_row_id": "there is no row_id",
    "unknown_row_id": "no scored record has the row_id",
    "missing_annotator": "there is no annotator",
    "wrong_task": "the record is of another task than the row says",
    "missing_value": "there is no value; a wide layout simply leaves the cell empty",
    "unknown_field": "the task's rubric has no such dimension or label",
    "not_a_number": "a dimension's value is no number",
    "outside_rubric": "a number beyond the dimension's bounds or between its grades, or a label not in its set",
    "label_mismatch": "a nested label stands under another parent than the one the annotator gave",
    "malformed_time": "the time is not ISO 8601",
    "duplicate_annotator": "the same annotator labelled the same field of the record later, or again",
}
"""Why a label is not used. A row of the table `alignment/labels` with any of these is kept, and left out."""

_TIME = pa.timestamp("us", tz="UTC")

LABELS = pa.schema(
    [
        *((name, pa.string()) for name in ("row_id", "task", "field", "annotator", "value")),
        ("number", pa.float64()),
        ("time", _TIME),
        ("status", pa.string()),
        ("reasons", pa.list_(pa.string())),
        ("detail", pa.string()),
        ("file", pa.string()),
        ("line", pa.int64()),
    ]
)
"""One row a label as it was given: usable (`valid`) or not (`rejected`, with every reason)."""

SAMPLE = pa.schema(
    [
        *((name, pa.string()) for name in ("row_id", "task", "conversation_id")),
        ("round", pa.int32()),
        ("stratum", pa.string()),
        ("inclusion_probability", pa.float64()),
        ("day", pa.string()),
        ("days", pa.list_(pa.string())),
        ("core", pa.bool_()),
        ("place", pa.int32()),
        ("annotators", pa.list_(pa.string())),
        ("settings_hash", pa.string()),
    ]
)
"""One row a record drawn for annotation. What annotators get is made from it, without the stratum."""

FIGURES = pa.schema(
    [
        *((name, pa.string()) for name in ("task", "field", "evaluator", "figure", "key")),
        *((name, pa.float64()) for name in ("value", "low", "high")),
        *((name, pa.int64()) for name in ("n", "clusters", "excluded")),
        ("note", pa.string()),
    ]
)
"""One row a figure of alignment/metrics or alignment/calibration."""

LABELS_VALID = pandera.DataFrameSchema(
    {
        "file": pandera.Column(pl.String),
        "line": pandera.Column(pl.Int64, pandera.Check.ge(0)),
        "status": pandera.Column(pl.String, pandera.Check.isin(["valid", "rejected"])),
        "reasons": pandera.Column(pl.List(pl.String)),
    },
    checks=[
        pandera.Check(
            lambda data: data.lazyframe.select(
                (pl.col("status") == "valid") == (pl.col("reasons").list.len() == 0)
            ),
            name="a label is rejected exactly when it has reasons",
        ),
        pandera.Check(
            lambda data: data.lazyframe.select(
                pl.col("reasons").list.eval(pl.element().is_in(list(REASONS))).list.all()
            ),
            name="every reason is a known reason code",
        ),
    ],
)
"""What every row of alignment/labels satisfies."""

SAMPLE_VALID = pandera.DataFrameSchema(
    {
        "row_id": pandera.Column(pl.String, unique=True),
        "inclusion_probability": pandera.Column(pl.Float64, pandera.Check.in_range(0, 1)),
        "place": pandera.Column(pl.Int32, pandera.Check.ge(1)),
        "annotators": pandera.Column(pl.List(pl.String)),
    },
    checks=pandera.Check(
        lambda data: data.lazyframe.select(pl.col("annotators").list.len() >= 1),
        name="every record has an annotator",
    ),
)
"""What every row of alignment/sample satisfies."""

_FINITE = pandera.Check(lambda data: data.lazyframe.select(pl.col(data.key).is_finite()))
FIGURES_VALID = pandera.DataFrameSchema(
    {
        **{
            name: pandera.Column(pl.Float64, _FINITE, nullable=True)
            for name in ("value", "low", "high")
        },
        "n": pandera.Column(pl.Int64, pandera.Check.ge(0)),
        "note": pandera.Column(pl.String, nullable=True),
    },
    checks=pandera.Check(
        lambda data: data.lazyframe.select(
            pl.col("value").is_not_null() | pl.col("note").is_not_null()
        ),
        name="an undefined figure says why",
    ),
)
"""What every row of alignment/metrics and alignment/calibration satisfies."""
