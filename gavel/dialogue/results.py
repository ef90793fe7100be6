"""The per-dialogue results of a system: one row a dialogue and reading, of either track."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandera.polars as pandera
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from gavel.dialogue.acts import holds_acts, parse_acts
from gavel.dialogue.dstc8 import DEFINITIONS, evaluate_acts, load_act_database, signature
from gavel.dialogue.figures import FIGURES, value
from gavel.dialogue.loading import load_corpus
from gavel.dialogue.multiwoz import REFERENCE, STRICT, evaluate
from gavel.dialogue.predictions import parse_predictions, read_document
from gavel.settings.dialogue import Dialogue
from gavel.store.files import Store
from gavel.store.tables import write_batches
from gavel.suite import Suite

_FAILURE = pa.struct(
    [
        *(("domain", pa.string()), ("reason", pa.string()), ("slot", pa.string())),
        *(("turn", pa.int32()), ("detail", pa.string())),
    ]
)
_TRACKING = pa.struct(
    [(name, pa.int64()) for name in ("turns", "joint", "right", "spurious", "missed", "one_letter")]
)
SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("system", "track", "reading", "dialogue_id")),
        *((name, pa.bool_()) for name in ("missing", "inform", "success")),
        ("domains", pa.list_(pa.struct([("domain", pa.string()), ("inform", pa.bool_())]))),
        *((name, pa.list_(pa.int64())) for name in ("bleu", "bleu_text")),
        ("tracking", _TRACKING),
        *((name, pa.int32()) for name in ("entities", "consistent_entities")),
        *((name, pa.float64()) for name in ("book", "precision", "recall", "f1")),
        *((name, pa.int32()) for name in ("turns", "return")),
        ("failures", pa.list_(_FAILURE)),
        ("signature", pa.string()),
        ("predictions", pa.string()),
    ]
)
"""Columns that a track does not have are null; `predictions` is the content hash of the file."""

RESULTS_VALID = pandera.DataFrameSchema(
    {
        "track": pandera.Column(pl.String, pandera.Check.isin(["multiwoz", "dstc8"])),
        "reading": pandera.Column(pl.String, pandera.Check.isin([STRICT, REFERENCE, *DEFINITIONS])),
        "success": pandera.Column(pl.Boolean),
        **{
            name: pandera.Column(pl.Float64, pandera.Check.in_range(0, 1), nullable=True)
            for name in ("book", "recall", "f1")
        },
    }
)
"""What every row of results satisfies."""


NAME = re.compile(r"[A-Za-z0-9_.-]+")
"""What can name a system; Dagster gives other characters a meaning in partition keys."""


def write_results(suite: Suite, settings: Dialogue, system: str, path: Path) -> list[str]:
    """Evaluate `system` from its prediction file and write its rows; return what to tell a person.

    Raises:
        PredictionError: the file is missing, malformed, or does not fit the corpus.
        CorpusError: the corpus or a database is missing or malformed.
    """
    file = prediction_file(suite, settings, system)
    document = read_document(file)
    corpus_folder = suite.path(settings.corpus)
    if holds_acts(document):
        acts = parse_acts(file, document)
        folder = suite.path(settings.acts_database or settings.corpus)
        database = load_act_database(folder, corpus_folder)
        rows = evaluate_acts(acts, database)
        signatures = {name: signature(acts, database, name) for name in DEFINITIONS}
        fingerprint, notes = acts.fingerprint, list[str]()
    else:
        predictions = parse_predictions(file, document)
        evaluation = evaluate(predictions, load_corpus(corpus_folder), settings.options_of(system))
        rows, notes = evaluation.rows, evaluation.notes
        signatures = dict(evaluation.signatures)
        fingerprint = predictions.fingerprint
    write_batches(path, SCHEMA, _batches(rows, signatures, fingerprint))
    return notes


def standings_of(path: Path) -> dict[str, float]:
    """The plain figures of a system's results, by reading, for the UI to plot over time."""
    by_reading: dict[str, list[dict[str, Any]]] = {}
    for row in pq.read_table(path).to_pylist():
        by_reading.setdefault(row["reading"], []).append(row)
    return {
        f"{reading}/{figure.name}": found
        for reading, rows in by_reading.items()
        for figure in FIGURES
        if figure.track == rows[0]["track"] and (found := value(figure, rows)) is not None
    }


def prediction_file(suite: Suite, settings: Dialogue, system: str) -> Path:
    """The file that `system` is named after."""
    return suite.path(settings.predictions) / f"{system}.json"


def evaluated(store: Store) -> list[Path]:
    """The results of every system that was evaluated, whether its prediction file is still there or not."""
    return sorted((store.root / "dialogue" / "results").glob("*.parquet"))


def systems(suite: Suite, settings: Dialogue) -> tuple[list[str], list[str]]:
    """The systems that have a prediction file now, in alphabetical order; and why others have none of it."""
    folder = suite.path(settings.predictions)
    stems = sorted(path.stem for path in folder.glob("*.json") if not path.name.startswith("."))
    named = [stem for stem in stems if NAME.fullmatch(stem)]
    refused = [
        f"{folder / stem}.json: {stem!r} cannot name a system; accepted: letters, digits, _ . and -"
        for stem in stems
        if not NAME.fullmatch(stem)
    ]
    return named, refused


def _batches(
    rows: Iterable[Mapping[str, Any]], signatures: Mapping[str, str], fingerprint: str
) -> list[pa.RecordBatch]:
    full = [
        {**row, "signature": signatures[row["reading"]], "predictions": fingerprint} for row in rows
    ]
    return list(pa.Table.from_pylist(full, schema=SCHEMA).to_batches())
