"""Pairs of answers compared by the rules and by an endpoint that looks at positions, on a real instance."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow.parquet as pq
import pytest

from assets.pairwise import COMPARE
from tests.e2e.conftest import Project, failure_of
from tests.endpoint import Ask, Endpoint, Reply, answer_to

N = 12
GOOD = (
    "Gladly: two coats of primer, then sand it. You need five litres, please ask for the blue can."
)
BAD = "No idea."


def behave(ask: Ask) -> Reply:
    """Prefers what is shown first, except where one says nothing; breaks on one pair."""
    text = ask.record
    if "wall 3?" in text:
        return Reply("neither")
    first_is_bad = text.index(BAD) < text.index(GOOD)
    preference = "second" if first_is_bad and "wall 1?" in text else "first"
    return Reply(json.dumps(answer_to(ask.body, preference=preference)))


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint(behave) as server:
        yield server


@pytest.fixture
def compared(project: Project, endpoint: Endpoint) -> Project:
    rows = [
        {
            "item": n,
            "prompt": f"How do I paint wall {n}?",
            "answers": {"careful": GOOD if n % 4 else BAD, "hasty": BAD if n % 4 else GOOD},
            "preferences": {"ann": "careful", "bob": "careful"},
        }
        for n in range(N)
    ]
    (project.folder / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    project.write_suite(
        evaluators={
            "judge": {"backend": "heuristic"},
            "sly": {"backend": "openai_compatible", "base_url": endpoint.url, "model": "sly"},
        },
        regeneration_attempts=1,
        benchmark={"pairs": "pairs.jsonl"},
        alignment={"resamples": 200},
    )
    return project


def ranked(project: Project) -> dict[tuple[str, str, str | None, str | None], dict[str, Any]]:
    rows = pq.read_table(project.store.existing("benchmark/ranking")).to_pylist()
    return {(r["evaluator"], r["figure"], r["first"], r["second"]): r for r in rows}


def test_both_orders_are_asked_and_systems_ranked(compared: Project, endpoint: Endpoint) -> None:
    for name in ("judge", "sly"):
        result = compared.run(COMPARE, name)
        assert result.success, failure_of(result)
    found = ranked(compared)

    def value(name: str, figure: str, *about: str) -> Any:
        return found[name, figure, *(*about, None, None)[:2]]["value"]

    # The rules see that nine of twelve careful answers say more, in both orders alike.
    assert value("judge", "win_rate", "careful", "hasty") == pytest.approx(9 / 12)
    assert value("judge", "inconsistent") == 0
    assert value("judge", "position_bias") == pytest.approx(0)
    assert value("judge", "rank", "careful") == 1
    assert value("judge", "accuracy") == pytest.approx(9 / 12)
    # The sly one contradicts itself on all but one pair; one has no verdict.
    assert value("sly", "unresolved") == 1
    assert value("sly", "inconsistent") == N - 2
    assert value("sly", "wins", "careful", "hasty") == 1
    assert value("sly", "position_bias") == pytest.approx((1 + 2 * (N - 2)) / (2 * (N - 1)) - 0.5)
    # People prefer the careful one always, so that no finite strength fits.
    assert value("people", "win_rate", "careful", "hasty") == 1
    assert value("people", "strength", "careful") is None
    assert "evaluator:sly|pairs:" in found["sly", "inconsistent", None, None]["signature"]

    firsts = [body["messages"][1]["content"] for body in endpoint.bodies]
    assert len(firsts) == 2 * N + 2, "each pair twice, and the broken one again"
    page = (compared.store.root / "benchmark" / "ranking.html").read_text()
    assert "Pairs of answers" in page
    assert "no finite strength fits" in page
    before = endpoint.total
    assert compared.run(COMPARE, "sly").success
    assert endpoint.total == before, "nothing is asked twice"


def test_a_malformed_file_ends_in_its_sentence(compared: Project) -> None:
    (compared.folder / "pairs.jsonl").write_text('{"item": 1}')
    result = compared.run(COMPARE, "judge")
    assert not result.success
    assert "pairs.jsonl, line 1: has no prompt" in failure_of(result)


def test_a_suite_without_pairs_has_no_comparison(project: Project) -> None:
    names = {key.to_user_string() for a in project.definitions().assets or [] for key in a.keys}
    assert "benchmark/table" in names
    assert not {name for name in names if "pairwise" in name or name == "benchmark/ranking"}
