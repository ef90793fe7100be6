"""Which records go to the larger evaluator, and why; rules that do not fit end in a sentence."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from gavel.errors import SuiteError
from gavel.judge.escalation import audited, escalated
from gavel.settings.judging import Escalation

SCHEMA = {
    "row_id": pl.String,
    "status": pl.String,
    "confidence": pl.Float64,
    "disagreement": pl.Float64,
    "helpfulness": pl.Float64,
    "language": pl.String,
    "out_of_coverage": pl.Boolean,
}
SURE = {
    "row_id": "a",
    "status": "valid",
    "confidence": 0.9,
    "disagreement": 0.1,
    "helpfulness": 4.0,
}


def reasons(record: dict[str, Any], **settings: Any) -> list[str]:
    standing = pl.DataFrame([dict.fromkeys(SCHEMA) | SURE | record], schema=SCHEMA)
    found = escalated(standing, Escalation(evaluator="large", **settings), "chat")
    return found["because"].to_list()[0] if found.height else []


@pytest.mark.parametrize(
    ("record", "settings", "because"),
    [
        ({}, {}, []),
        ({"status": "unresolved", "confidence": None}, {"below_confidence": 0.5}, ["unresolved"]),
        ({"confidence": 0.49}, {"below_confidence": 0.5}, ["low_confidence"]),
        ({"confidence": 0.5}, {"below_confidence": 0.5}, []),
        ({"confidence": None}, {"below_confidence": 0.5}, ["low_confidence"]),
        ({"confidence": None}, {}, []),
        ({"disagreement": 0.31}, {"above_disagreement": 0.3}, ["disagreement"]),
        ({"disagreement": 0.3}, {"above_disagreement": 0.3}, []),
        ({"disagreement": None}, {"above_disagreement": 0.3}, ["disagreement"]),
        ({}, {"audit_share": 1.0}, ["audit"]),
        ({"out_of_coverage": True}, {"high_risk": [{"out_of_coverage": True}]}, ["high_risk"]),
        ({"out_of_coverage": None}, {"high_risk": [{"out_of_coverage": True}]}, []),
        ({"language": "de"}, {"high_risk": [{"language": ["de", "fr"]}]}, ["high_risk"]),
        ({"helpfulness": 2.0}, {"high_risk": [{"helpfulness": {"at_most": 2}}]}, ["high_risk"]),
        ({"helpfulness": 2.0}, {"high_risk": [{"helpfulness": {"at_least": 3}}]}, []),
        ({"helpfulness": 2.0}, {"high_risk": [{"helpfulness": [1, 2]}]}, ["high_risk"]),
        # Every condition of one rule; any one of the rules.
        ({"language": "de"}, {"high_risk": [{"language": "de", "helpfulness": 1}]}, []),
        (
            {"language": "de"},
            {"high_risk": [{"helpfulness": 1}, {"language": "de"}]},
            ["high_risk"],
        ),
        (
            {"confidence": 0.1, "language": "de"},
            {"below_confidence": 0.5, "high_risk": [{"language": "de"}], "audit_share": 1.0},
            ["low_confidence", "high_risk", "audit"],
        ),
    ],
)
def test_reasons(record: dict[str, Any], settings: dict[str, Any], because: list[str]) -> None:
    assert reasons(record, **settings) == because


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ({"colour": "red"}, "'colour' is no column of a record or verdict; accepted: confidence,"),
        ({"language": 3}, "language holds String, found 3"),
        ({"out_of_coverage": "yes"}, "out_of_coverage holds Boolean, found 'yes'"),
        ({"helpfulness": True}, "helpfulness holds Float64, found True"),
        ({"language": {"at_most": 2}}, "language holds String, which has no at_least"),
        ({}, "a rule without any condition"),
    ],
)
def test_a_rule_that_does_not_fit_is_told(rule: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SuiteError, match=r"tasks\.chat\.escalation\.high_risk") as error:
        reasons({}, high_risk=[rule])
    assert sentence in str(error.value)


def test_the_audit_share_is_drawn_by_the_record_and_has_its_size() -> None:
    names = [f"{n:032x}" for n in range(20_000)]
    drawn = {name for name in names if audited(name, 0.1)}
    # 0.1 with a standard error of 0.002.
    assert len(drawn) / len(names) == pytest.approx(0.1, abs=0.01)
    assert drawn == {name for name in names if audited(name, 0.1)}
    assert drawn < {name for name in names if audited(name, 0.2)}
