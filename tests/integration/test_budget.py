"""A budget a day stops dispatch cleanly, over all runs, and what was answered is kept."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from gavel.errors import EvaluatorOutage
from gavel.inference import budget as budget_module
from gavel.inference.budget import BudgetSpent, Spending
from gavel.settings.judging import Prices
from gavel.settings.operation import Budget
from tests.endpoint import Ask, Endpoint, Reply

from .judging import Bench, answer, judge_at

UTC = ZoneInfo("UTC")
TOKENS_AN_ANSWER = 120


def spending(folder: Path, **bounds: float) -> Spending:
    return Spending(folder, Budget(**bounds), Prices(prompt=1000, completion=1000), UTC)


@pytest.mark.parametrize(
    ("bounds", "most"),
    [
        ({"requests": 30}, 30),
        ({"tokens": 30 * TOKENS_AN_ANSWER}, 34),
        ({"usd": 30 * TOKENS_AN_ANSWER / 1000}, 34),
    ],
)
def test_dispatch_stops_at_the_budget_and_goes_on_from_there(
    bench: Bench, tmp_path: Path, bounds: dict[str, float], most: int
) -> None:
    with Endpoint(lambda ask: Reply(answer())) as endpoint:
        judge = judge_at(endpoint.url, max_concurrency=2)
        bounded = replace(judge, spending=spending(tmp_path / "spending", **bounds))
        with pytest.raises(BudgetSpent, match="left for tomorrow"):
            bench.judge(bounded, 50)
        assert 30 <= endpoint.total <= most
        assert len(bench.answers()) == endpoint.total
        assert not bench.verdicts.exists()
        before = endpoint.total
        with pytest.raises(BudgetSpent):
            bench.judge(replace(judge, spending=spending(tmp_path / "spending", **bounds)), 50)
        assert endpoint.total == before, "another run sees what the first has spent"
        judged = bench.judge(judge, 50)
    assert (judged.asked.known, judged.valid) == (before, 50)


def test_what_a_run_spent_before_an_outage_counts(bench: Bench, tmp_path: Path) -> None:
    healthy = 15

    def dying(ask: Ask) -> Reply:
        return Reply(answer()) if endpoint.answered.total() < healthy else Reply(status=500)

    with Endpoint(dying) as endpoint:
        judge = judge_at(endpoint.url, max_concurrency=1)
        with pytest.raises(EvaluatorOutage):
            bench.judge(replace(judge, spending=spending(tmp_path / "spending", requests=20)), 50)
        healthy = 50
        with pytest.raises(BudgetSpent):
            bench.judge(replace(judge, spending=spending(tmp_path / "spending", requests=20)), 50)
        assert endpoint.answered.total() == 20


def test_a_budget_set_in_the_middle_of_a_day_counts_what_was_spent_before(
    bench: Bench, tmp_path: Path
) -> None:
    with Endpoint(lambda ask: Reply(answer())) as endpoint:
        judge = judge_at(endpoint.url)
        bench.judge(replace(judge, spending=spending(tmp_path / "spending")), 30)
        bounded = replace(judge, spending=spending(tmp_path / "spending", requests=30))
        with pytest.raises(BudgetSpent, match="30 of 30 requests"):
            bench.judge(bounded, 50)
        assert endpoint.total == 30


def test_a_new_day_has_a_new_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock(dt.datetime):
        hour_of_test = 23

        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> dt.datetime:  # type: ignore[override]
            return dt.datetime(2026, 11, 2, cls.hour_of_test, tzinfo=UTC).astimezone(tz)

    monkeypatch.setattr(budget_module.dt, "datetime", Clock)
    bounded = Spending(tmp_path, Budget(requests=3), Prices(), ZoneInfo("Europe/Berlin"))
    assert bounded.spent(under_way=2) is None
    assert bounded.spent(under_way=3) == "3 of 3 requests"
    (tmp_path / "2026-11-03" / "other.json").parent.mkdir()
    (tmp_path / "2026-11-03" / "other.json").write_text('{"requests": 3}')
    Clock.hour_of_test = 21
    assert bounded.spent(under_way=0) is None, "23 h UTC was the next day in Berlin, 21 h is not"
    Clock.hour_of_test = 23
    assert bounded.spent(under_way=0) is not None
