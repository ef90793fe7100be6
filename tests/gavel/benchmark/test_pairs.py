"""Pairs: files of them, both orders, points, contradictions, rankings; known preferences and PandaLM's people."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from gavel.agreement.bootstrap import Resampling
from gavel.benchmark.pairs import Outcome, of_people, outcomes, read_pairs
from gavel.benchmark.ranking import PEOPLE, RANKING_VALID, ranking, ranking_rows
from gavel.errors import PairError
from tests.gavel.agreement.test_bradley_terry import by_regression

SHARED = Path(
    os.environ.get("GAVEL_TEST_DATA") or Path(__file__).parents[3].parent / "shared" / "data"
)
RESAMPLING = Resampling(resamples=200)


def pair(item: int, **changes: Any) -> dict[str, Any]:
    return {"item": item, "prompt": "Hi?", "answers": {"b": "hello", "a": "go away"}, **changes}


def write(folder: Path, rows: Sequence[Any]) -> Path:
    path = folder / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def asked(folder: Path, rows: Sequence[Any]) -> pl.DataFrame:
    found = pl.from_arrow(read_pairs(write(folder, rows)))
    assert isinstance(found, pl.DataFrame)
    return found


def test_each_pair_is_asked_in_both_orders(tmp_path: Path) -> None:
    questions = asked(tmp_path, [pair(1), pair(2, answers={"a": "1", "b": "2", "c": "3"})])
    assert questions.height == 2 + 6
    first, second = questions.head(2).to_dicts()
    assert (first["first"], first["response"], first["reference"]) == ("a", "go away", "hello")
    assert (second["first"], second["response"], second["reference"]) == ("b", "hello", "go away")
    assert questions["row_id"].n_unique() == 8
    assert questions["shard_row"].to_list() == list(range(8))
    assert Counter(questions["first"]) == Counter(questions["second"])


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("[1]", "line 1: holds list, not a JSON object"),
        ("{", "line 1: is no JSON"),
        (json.dumps({"item": 1, "prompt": "x"}), "line 1: has no answers"),
        (json.dumps(pair(1, answers={"a": "x"})), "two or more systems' texts"),
        (json.dumps(pair(1, answers={"a": "x", "b": None})), "two or more systems' texts"),
        (json.dumps(pair(1, answers={"a": "x", "tie": "y"})), "cannot be called 'tie'"),
        (json.dumps(pair(1, preferences={"ann": "c"})), "name 'c'; accepted: a, b, tie"),
        (json.dumps(pair(1)) + "\n" + json.dumps(pair(1)), "line 2: item '1' stands in line 1 too"),
    ],
)
def test_a_malformed_file_is_told_by_line(tmp_path: Path, row: str, sentence: str) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text(row, encoding="utf-8")
    with pytest.raises(PairError) as error:
        read_pairs(path)
    assert sentence in str(error.value)
    with pytest.raises(PairError, match="cannot be read"):
        read_pairs(tmp_path / "none.jsonl")


@pytest.mark.parametrize(
    ("a_first", "b_first", "points", "consistent", "winner"),
    [
        ("first", "second", 1.0, True, "a"),
        ("second", "first", 0.0, True, "b"),
        ("tie", "tie", 0.5, True, "tie"),
        # Always the one shown first: a contradiction, whose points are those of a tie.
        ("first", "first", 0.5, False, "tie"),
        ("first", "tie", 0.75, False, "tie"),
        ("first", None, None, None, None),
        (None, None, None, None, None),
    ],
)
def test_points_are_the_mean_of_both_orders(
    tmp_path: Path,
    a_first: str | None,
    b_first: str | None,
    points: float | None,
    consistent: bool | None,
    winner: str | None,
) -> None:
    questions = asked(tmp_path, [pair(1)])
    given = dict(zip(questions["row_id"], (a_first, b_first), strict=True))
    (found,) = outcomes(questions, {k: v for k, v in given.items() if v is not None})
    assert (found.one, found.other) == ("a", "b")
    assert (found.points, found.consistent, found.winner) == (points, consistent, winner)


def made(points: Mapping[tuple[str, str], Sequence[float]]) -> list[Outcome]:
    """Consistent outcomes with these points, each of a prompt of its own."""
    return [
        Outcome(f"{one}{other}{n}", one, other, value, True, (value, 1 - value), None)
        for (one, other), values in points.items()
        for n, value in enumerate(values)
    ]


def figures(
    found: Sequence[Outcome], evaluator: str = "e"
) -> dict[tuple[str, str | None, str | None], dict[str, Any]]:
    rows = list(ranking_rows(evaluator, found, RESAMPLING, "signature"))
    return {(row["figure"], row["first"], row["second"]): row for row in rows}


def test_win_rates_and_strengths_by_hand() -> None:
    # a beats b 3 of 4; one of them ties with c twice out of two.
    found = figures(made({("a", "b"): [1, 1, 1, 0], ("a", "c"): [0.5, 0.5], ("b", "c"): [0, 1]}))
    assert found["win_rate", "a", "b"]["value"] == pytest.approx(0.75)
    assert found["wins", "a", "b"]["value"] == 3
    assert found["losses", "a", "b"]["value"] == 1
    assert found["ties", "a", "c"]["value"] == 2
    assert found["win_rate", "a", None]["value"] == pytest.approx(4 / 6)
    assert found["win_rate", "c", None]["value"] == pytest.approx((1 + 1) / 4)
    assert [found["rank", name, None]["value"] for name in "acb"] == [1, 2, 3]
    expected = by_regression(np.array([[0, 3, 1], [1, 0, 1], [1, 1, 0]], dtype=float))
    strengths = [found["strength", name, None]["value"] for name in "abc"]
    assert strengths == pytest.approx(list(expected), abs=1e-5)


def test_equal_strengths_share_a_rank() -> None:
    games = [1.0] * 19 + [0.0] * 21
    found = figures(made({("a", "b"): games, ("a", "c"): games, ("b", "c"): [0.5, 0.5]}))
    assert [found["rank", name, None]["value"] for name in "abc"] == [3, 1, 1]


def test_an_unbeaten_system_has_no_strength_and_says_why() -> None:
    found = figures(made({("a", "b"): [1, 1, 1]}))
    strength = found["strength", "a", None]
    assert strength["value"] is None
    assert "no finite strength fits" in strength["note"]
    assert ("rank", "a", None) not in found
    assert found["win_rate", "a", "b"]["value"] == 1


def test_the_interval_of_a_win_rate_is_near_the_binomial_one() -> None:
    found = figures(made({("a", "b"): [1.0] * 60 + [0.0] * 40}))
    row = found["win_rate", "a", "b"]
    # 0.6 with a standard error of 0.049.
    assert row["low"] == pytest.approx(0.6 - 1.96 * 0.049, abs=0.03)
    assert row["high"] == pytest.approx(0.6 + 1.96 * 0.049, abs=0.03)


def test_an_evaluator_that_looks_at_positions_is_found_out(tmp_path: Path) -> None:
    questions = asked(tmp_path, [pair(n) for n in range(20)])
    always_first = dict.fromkeys(questions["row_id"], "first")
    found = figures(outcomes(questions, always_first))
    assert found["inconsistent", None, None]["value"] == 20
    assert found["inconsistent_rate", "a", "b"]["value"] == 1
    assert found["position_bias", None, None]["value"] == pytest.approx(0.5)
    assert found["win_rate", "a", "b"]["value"] == pytest.approx(0.5)
    half = {row_id: "first" for n, row_id in enumerate(questions["row_id"]) if n % 4}
    missing = figures(outcomes(questions, half))
    assert missing["unresolved", None, None]["value"] == 10
    # One order of a pair says nothing of positions: by the answers alone, 3 of 4 lose their second here.
    by_answers = {
        row_id: "first" if n % 2 == 0 else "second" for n, row_id in enumerate(questions["row_id"])
    }
    one_order = {row_id: says for n, (row_id, says) in enumerate(by_answers.items()) if n % 4 != 1}
    unbiased = figures(outcomes(questions, one_order))
    assert unbiased["position_bias", None, None]["value"] == 0
    assert missing["win_rate", "a", "b"]["n"] == 10


def test_nobody_answered() -> None:
    nothing = [Outcome(str(n), "a", "b", None, None, (), None) for n in range(3)]
    for row in figures(nothing).values():
        assert row["value"] in (None, 0, 3)
        assert row["value"] is not None or row["note"].startswith("undefined:")


def pandalm() -> list[dict[str, Any]]:
    """PandaLM's test set as a file of pairs: 999 pairs of five systems, three people each."""
    path = SHARED / "pandalm" / "testset-v1.json"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    rows = []
    for found in json.loads(path.read_text(encoding="utf-8")):
        first, second = found["cmp_key"].split("_")
        names = {0: "tie", 1: first, 2: second}
        rows.append(
            {
                "item": found["idx"],
                "prompt": f"{found['instruction']}\n{found['input']}",
                "answers": {first: str(found["response1"]), second: str(found["response2"])},
                "preferences": {f"annotator{n}": names[found[f"annotator{n}"]] for n in (1, 2, 3)},
            }
        )
    return rows


def test_people_rank_pandalms_systems_as_a_logistic_regression_does(tmp_path: Path) -> None:
    rows = pandalm()
    unanimous = sum(len(set(row["preferences"].values())) == 1 for row in rows)
    assert unanimous == 879
    table = ranking(asked(tmp_path, rows), {}, "hash", RESAMPLING)
    RANKING_VALID.validate(pl.from_arrow(table), lazy=True)
    found = {(r["figure"], r["first"], r["second"]): r for r in table.to_pylist()}
    assert {r["evaluator"] for r in table.to_pylist()} == {PEOPLE}
    systems = sorted({first for figure, first, _ in found if figure == "strength"})
    assert len(systems) == 5
    wins = np.zeros((5, 5))
    ties = 0
    for row in rows:
        (name, count), *_ = Counter(row["preferences"].values()).most_common(1)
        one, other = (systems.index(system) for system in row["answers"])
        if count < 2:
            continue
        if name == "tie":
            ties += 1
            wins[one, other] += 0.5
            wins[other, one] += 0.5
        else:
            won = systems.index(name)
            wins[won, one + other - won] += 1
    strengths = [found["strength", system, None]["value"] for system in systems]
    assert strengths == pytest.approx(list(by_regression(wins)), abs=1e-4)
    assert found["rank", "llama-7b", None]["value"] <= 2
    one, other = "bloom-7b", "llama-7b"
    games = wins[systems.index(one), systems.index(other)]
    against = wins[systems.index(other), systems.index(one)]
    assert found["win_rate", one, other]["value"] == pytest.approx(games / (games + against))
    assert sum(r["value"] for (f, _, o), r in found.items() if f == "ties" and o) == ties


def test_people_never_contradict_themselves_and_agree_with_themselves(tmp_path: Path) -> None:
    questions = asked(tmp_path, pandalm()[:100])
    people = of_people(outcomes(questions, {}))
    assert all(outcome.consistent in (True, None) for outcome in people)
    known = {
        q["row_id"]: "tie"
        if q["people"] == "tie"
        else "first"
        if q["people"] == q["first"]
        else "second"
        for q in questions.iter_rows(named=True)
        if q["people"] is not None
    }
    found = figures(outcomes(questions, known))
    assert found["accuracy", None, None]["value"] == 1
    assert found["kappa", None, None]["value"] == 1
    assert found["position_bias", None, None]["value"] == pytest.approx(0)
