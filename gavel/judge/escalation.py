"""Escalation: which records a larger evaluator judges after the first tier, and why."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import reduce

import polars as pl

from gavel.errors import SuiteError
from gavel.settings.judging import Condition, Escalation, Range

REASONS = {
    "unresolved": "no verdict of the first tier is valid",
    "low_confidence": "the first tier's confidence is below the bound, or not given",
    "disagreement": "the panel's verdicts are further apart than the bound",
    "high_risk": "the record fulfils a rule of high_risk",
    "audit": "drawn at random",
}
"""Every reason to escalate a record."""


def escalated(standing: pl.DataFrame, settings: Escalation, task: str) -> pl.DataFrame:
    """The records of `standing` that go to the larger evaluator: row_id and the reasons, as `because`.

    `standing` has one row a record: its columns, and what the first tier says of it (fields, confidence,
    disagreement, status).

    Raises:
        SuiteError: a rule of high_risk names a column that is none, or compares what cannot be compared.
    """
    tests: dict[str, pl.Expr] = {"unresolved": pl.col("status") != "valid"}
    if settings.below_confidence is not None:
        low = pl.col("confidence") < settings.below_confidence
        # A verdict without a confidence is not known to be sure of itself.
        tests["low_confidence"] = (pl.col("status") == "valid") & low.fill_null(True)
    if settings.above_disagreement is not None:
        apart = pl.col("disagreement") > settings.above_disagreement
        # Where one member alone has a valid verdict, nothing says that the others would agree.
        tests["disagreement"] = (pl.col("status") == "valid") & apart.fill_null(True)
    if settings.high_risk:
        rules = [rule_expression(rule, standing.schema, task) for rule in settings.high_risk]
        tests["high_risk"] = reduce(lambda one, other: one | other, rules)
    if settings.audit_share:
        drawn = [audited(row_id, settings.audit_share) for row_id in standing["row_id"]]
        standing = standing.with_columns(pl.Series("drawn", drawn, dtype=pl.Boolean))
        tests["audit"] = pl.col("drawn")
    reasons = [pl.when(test.fill_null(False)).then(pl.lit(name)) for name, test in tests.items()]
    found = standing.select("row_id", pl.concat_list(reasons).list.drop_nulls().alias("because"))
    return found.filter(pl.col("because").list.len() > 0)


def audited(row_id: str, share: float) -> bool:
    """Whether the record is in the random audit share: drawn by its row_id, so that each run draws the same."""
    drawn = hashlib.sha256(f"audit {row_id}".encode()).hexdigest()[:12]
    return int(drawn, 16) / 16**12 < share


def rule_expression(
    rule: Mapping[str, Condition], schema: Mapping[str, pl.DataType], task: str
) -> pl.Expr:
    """Whether a record fulfils every condition of `rule`.

    Raises:
        SuiteError: as `escalated`.
    """
    where = f"tasks.{task}.escalation.high_risk"
    if not rule:
        raise SuiteError(
            f"{where}: found a rule without any condition; accepted: column: condition"
        )
    return reduce(
        lambda one, other: one & other,
        [_condition(name, condition, schema, where) for name, condition in rule.items()],
    )


def _condition(
    name: str, condition: Condition, schema: Mapping[str, pl.DataType], where: str
) -> pl.Expr:
    if name not in schema:
        raise SuiteError(
            f"{where}: {name!r} is no column of a record or verdict; accepted: {', '.join(sorted(schema))}"
        )
    kind, column = schema[name], pl.col(name)
    if isinstance(condition, Range):
        if not kind.is_numeric():
            raise SuiteError(
                f"{where}: {name} holds {kind}, which has no at_least and at_most; accepted: a value or a list"
            )
        least, most = condition.at_least, condition.at_most
        bounds = [column >= least] if least is not None else []
        return reduce(lambda a, b: a & b, bounds + ([column <= most] if most is not None else []))
    values = condition if isinstance(condition, list) else [condition]
    for value in values:
        fits = (
            isinstance(value, bool)
            if kind == pl.Boolean
            else isinstance(value, str)
            if kind == pl.String
            else isinstance(value, int | float)
            and not isinstance(value, bool)
            and kind.is_numeric()
        )
        if not fits:
            raise SuiteError(
                f"{where}: {name} holds {kind}, found {value!r}; accepted: values of that kind"
            )
    return pl.any_horizontal([column == value for value in values])
