"""Figures against values worked out by hand from the small day of conftest.py."""

from collections.abc import Callable
from math import log, sqrt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from gavel.report.quality import SCHEMA, Figures, bins, quality, warnings
from gavel.settings.operation import Quality

from .conftest import SCORES, VERDICTS, verdict

DIMENSIONS = [("helpfulness", 1.0, 5.0), ("clarity", 1.0, 5.0)]
DAY = "2026-11-02"


@pytest.fixture
def table(scores: Path, verdicts: list[Path], regenerated: list[Path]) -> pa.Table:
    return quality(
        "chat", DAY, DIMENSIONS, ["intent"], scores, verdicts, regenerated, {}, Quality()
    )


@pytest.fixture
def figures(table: pa.Table) -> Figures:
    return Figures(table)


def test_tidy_table(table: pa.Table) -> None:
    assert table.schema == SCHEMA
    names = list(
        zip(*(table.column(c).to_pylist() for c in ("figure", "field", "key")), strict=True)
    )
    assert len(names) == len(set(names))
    undefined = [row for row in table.to_pylist() if row["value"] is None]
    assert undefined
    assert all(row["note"].startswith("undefined: ") for row in undefined)
    assert all(row["value"] == row["value"] for row in table.to_pylist())


@pytest.mark.parametrize(
    ("figure", "key", "value", "n"),
    [
        ("records", None, 8, 8),
        ("valid", None, 5, 8),
        ("invalid", None, 3, 8),
        ("repaired", None, 2, 3),
        ("unresolved", None, 1, 8),
        ("invalid_rate", None, 3 / 8, 8),
        ("unresolved_rate", None, 1 / 8, 8),
        ("recovery_rate", None, 2 / 3, 3),
        ("fault_count", "not_json", 2, 8),
        ("fault_count", "out_of_range", 1, 8),
        ("fault_count", "missing_field", 1, 8),
        ("fault_rate", "not_json", 0.25, 8),
        # 7 first answers (r7 and r8 share one) and 5 later ones, for 13 verdicts
        ("answers", None, 12, 12),
        ("saved", None, 1, 13),
        ("retries", None, 3, 12),
        ("retries", "http_429", 2, 12),
        ("retries", "timeout", 1, 12),
        ("retry_rate", None, 2 / 12, 12),
        ("prompt_tokens", None, 1200, 12),
        ("completion_tokens", None, 120, 12),
        ("cost_usd", None, 6, 12),
        # 100 200 300 300 400 400 400 500 500 500 600 700: middle 400; .95 * 11 = 10.45
        ("latency_ms", "p50", 400, 12),
        ("latency_ms", "p95", 645, 12),
        # six gaps of a second, an hour's pause, four gaps of a second
        ("answers_per_second", None, 1, 10),
        ("records_per_second", None, 8 / 12, 8),
    ],
)
def test_validity_and_operations(
    figures: Figures, figure: str, key: str | None, value: float, n: int
) -> None:
    assert figures.value(figure, None, key) == pytest.approx(value)
    assert figures.n(figure, None, key) == n


@pytest.mark.parametrize(
    ("figure", "value"),
    [
        # 1 2 3 4 5 5 5
        ("mean", 25 / 7),
        ("sd", sqrt((105 - 625 / 7) / 6)),
        ("min", 1),
        ("p05", 1.3),
        ("p25", 2.5),
        ("p50", 4),
        ("p75", 5),
        ("p95", 5),
        ("max", 5),
    ],
)
def test_summary_leaves_the_unresolved_out(figures: Figures, figure: str, value: float) -> None:
    assert figures.value(figure, "helpfulness") == pytest.approx(value)
    assert figures.n(figure, "helpfulness") == 7


def test_shares(figures: Figures) -> None:
    assert figures.keyed("share", "helpfulness") == {
        "1": pytest.approx(1 / 7),
        "2": pytest.approx(1 / 7),
        "3": pytest.approx(1 / 7),
        "4": pytest.approx(1 / 7),
        "5": pytest.approx(3 / 7),
    }
    # 2.5 3 3.5 4 4.5 4.5 4.5: an edge belongs to the bin that it begins
    assert {k: v for k, v in figures.keyed("share", "score").items() if v} == {
        "2.5 to 3": pytest.approx(1 / 7),
        "3 to 3.5": pytest.approx(1 / 7),
        "3.5 to 4": pytest.approx(1 / 7),
        "4 to 4.5": pytest.approx(1 / 7),
        "4.5 to 5": pytest.approx(3 / 7),
    }
    assert figures.keyed("share", "intent") == {
        "advice": pytest.approx(5 / 7),
        "order": pytest.approx(2 / 7),
    }


def test_groups_keep_records_without_language(figures: Figures) -> None:
    assert figures.keyed("mean_by_language", "score") == {
        "en": pytest.approx((3.5 + 4 + 3 * 4.5) / 5),
        "de": 3,
        None: 2.5,
    }
    assert figures.note("mean_by_language", "score", None) == "records without language"
    assert figures.n("mean_by_language", "score", "en") == 5


def test_no_window_means_no_drift(figures: Figures) -> None:
    for figure in ("psi", "effect", "p_value"):
        assert figures.value(figure, "helpfulness") is None
        assert figures.note(figure, "helpfulness") == (
            "undefined: the reference sample is empty; "
            "n 7 against 0 of no earlier day in the window"
        )
    assert figures.value("trailing_mean", "clarity") is None


def records(values: list[float], intents: list[str], **other: Any) -> list[dict[str, Any]]:
    return [
        {
            "row_id": f"r{i}",
            "helpfulness": value,
            "score": value,
            "intent": intent,
            "status": "valid",
            **other,
        }
        for i, (value, intent) in enumerate(zip(values, intents, strict=True))
    ]


class TestDrift:
    def made(
        self,
        write: Callable[..., Path],
        days: dict[str, list[dict[str, Any]]],
        today: list[dict[str, Any]],
        **settings: Any,
    ) -> pa.Table:
        answers = [verdict(1, 1, 0)]
        return quality(
            "chat",
            DAY,
            [("helpfulness", 1.0, 5.0)],
            ["intent"],
            write("today", SCORES, today),
            [write("v", VERDICTS, answers)],
            [],
            {day: write(day, SCORES, rows) for day, rows in days.items()},
            Quality(**settings),
        )

    def test_pooled_window(self, write: Callable[..., Path]) -> None:
        # 50 twos and 50 fours before, over two days; 75 and 25 today
        before = records([2] * 25 + [4] * 25, ["a"] * 25 + ["b"] * 25)
        today = records([2] * 75 + [4] * 25, ["a"] * 75 + ["b"] * 25)
        days = {"2026-10-31": before, "2026-11-01": before, "2026-10-01": today, DAY: today}
        table = self.made(write, days, today, max_psi=0.2, alpha=0.001)
        figures = Figures(table)
        for field in ("helpfulness", "intent"):
            assert figures.value("psi", field) == pytest.approx(0.25 * log(3))
            assert figures.note("psi", field) == (
                "n 100 against 100 of 2026-10-31 to 2026-11-01 (2 days)"
            )
        # P(current > reference) = .25*.5, P(<) = .75*.5: delta = -.25
        assert figures.value("effect", "helpfulness") == pytest.approx(-0.25)
        # chi2 = 2 * (12.5^2/62.5 + 12.5^2/37.5) = 13.33, V = sqrt(chi2/200)
        assert figures.value("effect", "intent") == pytest.approx(sqrt(13.3333333 / 200))
        assert figures.value("trailing_mean", "helpfulness") == 3
        assert figures.keyed("trailing_share", "intent") == {"a": 0.5, "b": 0.5}
        assert warnings(table, Quality()) == {
            "chat drift helpfulness": "chat: helpfulness moved from a mean of 3.00 to 2.50 "
            "(PSI 0.27, effect -0.25, p < 0.001; n 100 against 100 of 2026-10-31 to 2026-11-01 (2 days)).",
            "chat drift score": "chat: score moved from a mean of 3.00 to 2.50 (PSI 0.27, effect -0.25, "
            "p < 0.001; n 100 against 100 of 2026-10-31 to 2026-11-01 (2 days)).",
            "chat drift intent": "chat: the mix of intent changed, most of all a from 50.0% to 75.0% (PSI 0.27, "
            "effect +0.26, p < 0.001; n 100 against 100 of 2026-10-31 to 2026-11-01 (2 days)).",
        }
        assert warnings(table, Quality(max_psi=0.3)) == {}
        assert warnings(table, Quality(alpha=1e-9)) == {}

    def test_many_sparse_classes_are_no_drift(self, write: Callable[..., Path]) -> None:
        before = records([3] * 60, [f"c{i}" for i in range(60)])
        today = records([3] * 60, [f"d{i}" for i in range(60)])
        figures = Figures(self.made(write, {"2026-11-01": before}, today))
        assert figures.value("p_value", "intent") is None

    def test_another_rubric_in_the_window_is_said(self, write: Callable[..., Path]) -> None:
        before = records([3, 4], ["a", "b"], rubric_hash="old")
        today = records([3, 4], ["a", "b"], rubric_hash="new")
        figures = Figures(self.made(write, {"2026-11-01": before}, today))
        assert str(figures.note("psi", "score")).endswith(
            "of 2026-11-01 (1 day), judged in part by another rubric or evaluator"
        )

    def test_another_scale_is_not_compared(self, write: Callable[..., Path]) -> None:
        before = records([9, 4], ["a", "b"])
        figures = Figures(self.made(write, {"2026-11-01": before}, records([3, 4], ["a", "b"])))
        assert figures.value("psi", "helpfulness") is None
        assert figures.value("trailing_mean", "helpfulness") is None
        assert "beyond today's scale of 1 to 5" in str(figures.note("psi", "helpfulness"))

    def test_a_dimension_new_today(self, write: Callable[..., Path], scores: Path) -> None:
        old = SCORES.remove(SCORES.get_field_index("clarity"))
        table = quality(
            "chat",
            DAY,
            DIMENSIONS,
            [],
            scores,
            [write("v", VERDICTS, [verdict(1, 1, 0)])],
            [],
            {"2026-11-01": write("old", old, records([3, 4], ["a", "b"]))},
            Quality(),
        )
        assert Figures(table).value("psi", "clarity") is None
        assert Figures(table).value("psi", "helpfulness") is not None


def test_empty_day(write: Callable[..., Path]) -> None:
    table = quality(
        "chat",
        DAY,
        DIMENSIONS,
        ["intent"],
        write("s", SCORES, []),
        [write("v", VERDICTS, [])],
        [],
        {},
        Quality(),
    )
    figures = Figures(table)
    assert figures.value("records") == 0
    for figure in ("invalid_rate", "recovery_rate", "retry_rate", "cost_usd", "records_per_second"):
        assert figures.value(figure) is None
        assert str(figures.note(figure)).startswith("undefined: ")
    assert figures.value("mean", "score") is None
    assert warnings(table, Quality()) == {}


def test_too_many_invalid(table: pa.Table) -> None:
    assert warnings(table, Quality(max_invalid_rate=0.2)) == {
        "chat invalid_rate": "chat: 37.5% of 8 verdicts were invalid at the first attempt "
        "(at most 20.0% expected), most often not_json."
    }


def test_bins() -> None:
    assert bins(1, 5, whole=True) == {"1": 0.5, "2": 1.5, "3": 2.5, "4": 3.5, "5": 4.5}
    assert list(bins(1, 3, whole=False)) == ["1 to 1.5", "1.5 to 2", "2 to 2.5", "2.5 to 3"]
    assert list(bins(0, 1, whole=True))[:2] == ["0 to 0.1", "0.1 to 0.2"]
    assert len(bins(0, 100, whole=True)) == 10
