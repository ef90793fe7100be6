"""The leaderboard: what is compared, and how small a corrected p-value can be."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gavel.dialogue.leaderboard import leaderboard, outdated_because
from gavel.dialogue.results import SCHEMA
from gavel.settings.dialogue import Dialogue

SETTINGS = Dialogue(corpus="corpus", predictions="predictions")


def write(folder: Path, successes: Mapping[str, int], dialogues: int) -> list[Path]:
    """The results of systems that serve the first so many of the `dialogues`."""
    paths = []
    for system, served in successes.items():
        rows = [
            {
                **{"system": system, "track": "dstc8", "reading": "dstc8", "signature": "s"},
                **{"dialogue_id": f"d{n}", "success": n < served},
            }
            for n in range(dialogues)
        ]
        paths.append(folder / f"{system}.parquet")
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), paths[-1])
    return paths


def test_of_eleven_systems_the_best_is_told_from_the_rest(tmp_path: Path) -> None:
    systems = {"best": 60, **{f"other{n}": 0 for n in range(10)}}
    _, comparisons = leaderboard(SETTINGS, write(tmp_path, systems, 60))
    pairs = {(pair["first"], pair["second"]): pair["p_holm"] for pair in comparisons.to_pylist()}
    assert len(pairs) == 55
    # No exchange is as extreme, so p is 1 in as many resamples and one, 200 a pair, times the pairs.
    assert pairs["best", "other0"] == pytest.approx(55 / (200 * 55 + 1))
    assert pairs["other0", "other1"] == 1


def test_what_is_outdated_is_marked_and_not_compared(tmp_path: Path) -> None:
    results = write(tmp_path, {"one": 60, "other": 0, "third": 0}, 60)
    standings, comparisons = leaderboard(SETTINGS, results, outdated={"third"}, gone={"third"})
    pairs = {(p["first"], p["second"]): (p["p"], p["p_holm"]) for p in comparisons.to_pylist()}
    # Of one pair, Holm's correction leaves p as it is.
    assert pairs == {("one", "other"): (1 / 1001, 1 / 1001)}
    rows = standings.to_pylist()
    assert {(r["system"], r["outdated"], r["gone"]) for r in rows} == {
        *{("one", False, False), ("other", False, False)},
        ("third", True, True),
    }
    assert outdated_because(rows) == {"third": "its prediction file is gone"}
