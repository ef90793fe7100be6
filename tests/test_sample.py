"""The bundled sample is what its script makes, and cleaning finds what the script put in."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from pathlib import Path

import pytest

from gavel.logs.clean import clean, write_raw
from gavel.suite import load_suite

ROOT = Path(__file__).parents[1]
MANIFEST = json.loads((ROOT / "sample" / "manifest.json").read_text(encoding="utf-8"))


def test_the_script_makes_the_same_bytes_again(tmp_path: Path) -> None:
    script = ROOT / "sample" / "make_sample.py"
    subprocess.run([sys.executable, str(script), "--out", str(tmp_path)], check=True)
    for made in tmp_path.rglob("*.jsonl.gz"):
        assert made.read_bytes() == (ROOT / "sample" / "logs" / made.name).read_bytes()
    assert len(list(tmp_path.rglob("*.jsonl.gz"))) == 3


@pytest.mark.parametrize("day", sorted(MANIFEST))
def test_cleaning_the_sample_counts_what_the_script_put_in(tmp_path: Path, day: str) -> None:
    expected = MANIFEST[day]
    suite = load_suite(ROOT / "suite.yaml")
    raw = tmp_path / "raw.parquet"
    write_raw(suite, dt.date.fromisoformat(day), raw)
    counts = clean(
        suite, raw, tmp_path / "clean.parquet", tmp_path / "rejected.parquet", suite.task_names()
    )
    assert counts.raw == expected["rows"]
    assert {t: n for t, n in counts.by_task.items() if n} == expected["clean"]
    assert {r: n for r, n in counts.by_reason.items() if n} == expected["reasons"]
    assert counts.clean >= 1200
