"""Evaluating: who sees what, what it costs, and the baselines."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gavel.fashion.conversation import Conversation
from gavel.fashion.evaluate import Cost, _busy, _rows, evaluate_system
from gavel.fashion.goals import make_goals
from gavel.fashion.scripted import Scripts
from gavel.fashion.simulate import Ground, simulate
from gavel.inference.ledger import Ledger
from gavel.inference.request import Request
from gavel.settings.fashion import FashionSystem
from gavel.settings.judging import Prices

from .conftest import goal, said, searched, talk, wrote

START = dt.datetime(2026, 11, 2, tzinfo=dt.UTC)


def answer(end: float, latency: float | None, **tokens: int | None) -> dict[str, Any]:
    return {
        "answered_at": START + dt.timedelta(seconds=end),
        "latency_ms": None if latency is None else latency * 1e3,
        "failure": None,
        "prompt_tokens": 1000,
        "completion_tokens": 100,
        **tokens,
    }


@pytest.mark.parametrize(
    ("spans", "seconds"),
    [
        ([], 0.0),
        ([(10, 2)], 2.0),
        ([(10, 2), (20, 3)], 5.0),  # a pause of seven seconds is not paid
        ([(10, 4), (11, 4)], 5.0),
        ([(10, 8), (6, 1)], 8.0),  # one within the other
        ([(5, None)], 0.0),
    ],
)
def test_a_machine_is_paid_while_it_is_busy(spans: list[Any], seconds: float) -> None:
    assert _busy([answer(*span) for span in spans]) == pytest.approx(seconds)


def test_cost_is_tokens_times_price_or_time_times_price() -> None:
    answers = [
        answer(1, 1),
        answer(2, 1),
        {**answer(3, 1), "failure": "timeout", "prompt_tokens": None},
    ]
    tokens = Cost(Prices(prompt=2.0, completion=10.0), None)
    # 2,000 read at 2 dollars and 200 written at 10 dollars a million; a lost request has no tokens.
    assert tokens.of(answers, 99) == pytest.approx(0.004 + 0.002)
    assert Cost(Prices(), 3.6).of(answers, 100) == pytest.approx(0.1)
    assert Cost(Prices(), None).of(answers, 100) == 0
    assert tokens.of([answer(1, 1, prompt_tokens=None)], 1) is None
    assert Cost(Prices(hour=3.6), None).of(answers, 100) == pytest.approx(0.1)
    assert Cost(None, None).of(answers, 100) is None, "nobody has said what it costs"
    assert Cost(None, 3.6).of(answers, 100) == pytest.approx(0.1)


def test_an_answer_that_conversations_share_is_paid_once() -> None:
    def named(name: str, attempt: int = 1) -> dict[str, Any]:
        return {**answer(1, 1), "request_hash": name, "attempt": attempt}

    played = [Conversation(c.goal, c.language, c.turns, c.outcome) for c in DATA]
    played[0].answers = [named("opening"), named("a")]
    played[1].answers = [named("opening"), named("b"), named("b", 2)]
    rows = _rows("s", "assistant", "en", played, Cost(Prices(prompt=1.0), None))
    assert [row["requests"] for row in rows][:2] == [2, 2]
    assert sum(row["cost_usd"] for row in rows) == pytest.approx(4 * 1000 / 1e6)


DATA = [
    talk(wrote("need shoes", "?"), searched("also black", "x"), said("ok thanks"), all_info=False),
    talk(
        searched("need black shoes", "x"),
        searched("also Nike in size M", "x"),
        said("ok thanks"),
        goal=goal(2),
        all_info=True,
    ),
    talk(searched("outfit for a hiking trip", "x"), goal=goal(3, theme="hiking")),
    talk(searched("need red jeans", "x"), goal=goal(4, split="development"), all_info=True),
]


def evaluated(
    ground: Ground,
    folder: Path,
    system: str,
    data: list[Conversation] | None = None,
    language: str = "en",
) -> list[dict[str, Any]]:
    with Ledger.open(folder / system, "run", "w") as ledger:
        return evaluate_system(ground, system, language, DATA if data is None else data, ledger)


def test_the_assistants_place_and_one_query(ground: Callable[..., Ground], tmp_path: Path) -> None:
    rows = evaluated(ground(), tmp_path, "scripted")
    assert [(row["mode"], row["id"], row["searches"], row["failures"]) for row in rows] == [
        ("assistant", "e00001", [["black shoes"]], []),
        ("assistant", "e00002", [["black shoes"], ["Nike black shoes M"]], []),
        ("assistant", "e00003", [["hiking outfit", "hiking shoes"]], []),
        # Only where the customer tells everything, and of the split that is evaluated.
        ("query", "e00002", [["Nike black shoes M"]], []),
    ]
    # The closing words ask for nothing.
    assert [row["turns"] for row in rows] == [2, 2, 1, 3]
    assert {row["outcome"] for row in rows[:3]} == {"replayed"}
    assert {row["cost_usd"] for row in rows} == {0.0}


@pytest.mark.parametrize(
    ("system", "query"),
    [
        ("yake", "black shoes Nike size"),
        ("popularity", "black Nike shoes"),
    ],
)
def test_baselines_write_queries(
    ground: Callable[..., Ground], tmp_path: Path, system: str, query: str
) -> None:
    (row,) = evaluated(ground(), tmp_path, system)
    assert (row["mode"], row["searches"]) == ("query", [[query]])


def test_lorem_is_greek_for_greek_and_each_conversation_has_its_own(
    ground: Callable[..., Ground], tmp_path: Path
) -> None:
    data = [
        talk(searched(f"need black shoes {n}", "x"), goal=goal(n), all_info=True) for n in range(9)
    ]
    latin = [row["searches"][0][0] for row in evaluated(ground(), tmp_path, "lorem", data)]
    assert len(set(latin)) > 5
    assert latin == [
        row["searches"][0][0] for row in evaluated(ground(), tmp_path / "2", "lorem", data)
    ]
    greek_data = [replace(c, language="el") for c in data]
    greek = evaluated(ground(), tmp_path / "3", "lorem", greek_data, "el")
    assert all(ord(c) > 0x300 for c in greek[0]["searches"][0][0].replace(" ", ""))
    assert all(len(row["searches"][0][0].split()) == 5 for row in greek)


def test_a_system_without_a_query_is_counted(ground: Callable[..., Ground], tmp_path: Path) -> None:
    data = [talk(searched("hello there", "x"), all_info=True)]
    assistant, query = evaluated(ground(), tmp_path, "scripted", data)
    assert (assistant["searches"], assistant["failures"]) == ([], ["no_query"])
    # Three attempts had none either, and count each.
    assert (query["searches"], query["failures"]) == ([], ["no_query"] * 3)


def test_live_customers_talk_to_the_system_in_its_language(
    ground: Callable[..., Ground], tmp_path: Path
) -> None:
    made = ground(customer="live")
    with Ledger.open(tmp_path / "s", "run", "w") as ledger:
        data = simulate(made, make_goals(made.settings, made.vocabulary), ledger)
    rows = evaluated(made, tmp_path, "scripted", data, "de")
    live = [row for row in rows if row["mode"] == "assistant"]
    assert len(live) == 14
    assert {row["outcome"] for row in live} == {"success", "one_exchange"}
    assert all(row["searches"] for row in live)


def test_a_live_customer_is_not_booked_on_the_system(
    ground: Callable[..., Ground], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = ground(customer="live")
    with Ledger.open(tmp_path / "s", "run", "w") as ledger:
        data = simulate(made, make_goals(made.settings, made.vocabulary), ledger)
    whole = Scripts.customer

    def prefixed(self: Scripts, request: Request) -> str:
        broken = request.subject.goal.id == "e00001"
        return "no object" if broken else f"CUSTOMER: {whole(self, request)}"

    monkeypatch.setattr(Scripts, "customer", prefixed)
    rows = [
        row for row in evaluated(made, tmp_path, "scripted", data) if row["mode"] == "assistant"
    ]
    broken = rows[0]
    assert (broken["id"], broken["outcome"], broken["requests"]) == ("e00001", "customer_broke", 0)
    assert {code for row in rows for code in row["failures"]} == set()
    # One for each turn but the closing words.
    assert sum(row["requests"] for row in rows) == sum(row["turns"] for row in rows) - sum(
        row["outcome"] == "success" for row in rows
    )


def test_modes_are_the_systems_own() -> None:
    assert FashionSystem(kind="scripted").played == ["assistant", "query"]
    assert FashionSystem(kind="yake").played == ["query"]
    assert FashionSystem(kind="scripted", modes=["query"]).played == ["query"]
