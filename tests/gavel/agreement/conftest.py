"""Where the real data of people's labels is, if it is."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest


def _folder(name: str) -> Path:
    given = os.environ.get("GAVEL_TEST_DATA")
    base = Path(given) if given else Path(__file__).parents[4] / "shared" / "data"
    return base / name


MLQE, BANKING, CLINC, PANDALM = (
    _folder(n) for n in ("mlqe_pe", "banking77", "clinc150", "pandalm")
)


def needs(folder: Path) -> pytest.MarkDecorator:
    return pytest.mark.skipif(not folder.exists(), reason=f"the files are not there: {folder}")


def direct_assessments(pair: str) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """The raters' scores of every sentence of a language pair, and a model's score of each."""
    with (MLQE / f"test20.{pair}.df.short.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    ratings = {
        str(n): {f"rater {k}": float(v) for k, v in enumerate(json.loads(row["scores"]))}
        for n, row in enumerate(rows)
    }
    return ratings, {str(n): float(row["model_scores"]) for n, row in enumerate(rows)}


def alone(items: Mapping[str, object]) -> dict[str, str]:
    """Every item a conversation of its own."""
    return {item: item for item in items}
