"""How sure the evaluator is of each field: from the probabilities of what it wrote, or from asking again.

What a model says of its own confidence is a third source, and the least calibrated (`gavel.agreement.calibration`
measures all three alike).
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, isfinite
from typing import Any

import orjson

from gavel.judge.rubric import Dimension, Rubric

TOP = 10
"""Alternatives asked for at each token; servers allow 20 at most, and grades are few."""

Token = tuple[str, float, Mapping[str, float]]
"""A token, its log-probability, and those of what could have stood there."""


@dataclass(frozen=True)
class Sureness:
    """How sure the evaluator is of one field, 0 to 1; `expected` is a dimension's probability-weighted score."""

    field: str
    confidence: float
    expected: float | None = None


def by_tokens(
    text: str, logprobs: str | None, values: Mapping[str, Any], rubric: Rubric
) -> list[Sureness]:
    """How sure of each field of `values` the tokens of `text` are; a field that cannot be found is left out.

    The confidence is the probability of the tokens that make up the value, one after another. Where a score is
    one token, it is its share among the numbers that could have stood there, and `expected` is their mean.
    """
    if logprobs is None:
        return []
    tokens: list[Token] = [(t, float(p), others) for t, p, others in orjson.loads(logprobs)]
    if "".join(token for token, _, _ in tokens) != text:
        return []
    dimensions = {dimension.name: dimension for dimension in rubric.dimensions}
    found = []
    for name in rubric.columns:
        span = _span(text, name)
        if span is None or values.get(name) is None:
            continue
        own = _overlapping(tokens, *span)
        if name in dimensions and len(own) == 1:
            _, _, others = own[0]
            if (expected := expected_score(others, dimensions[name])) is not None:
                found.append(
                    Sureness(name, _share(others, values[name], dimensions[name]), expected)
                )
                continue
        found.append(Sureness(name, min(1.0, exp(sum(p for _, p, _ in own)))))
    return found


def by_samples(values: Sequence[Mapping[str, Any]], rubric: Rubric) -> list[Sureness]:
    """How many of repeated valid answers agree with the first on each field; none for fewer than two.

    `expected` is the mean of the scores. (Self-consistency, Wang et al. 2023.)
    """
    if len(values) < 2:
        return []
    found = []
    for name in rubric.columns:
        given: list[Hashable] = [answer.get(name) for answer in values]
        if given[0] is None:
            continue
        numbers = [value for value in given if isinstance(value, float)]
        expected = sum(numbers) / len(numbers) if numbers else None
        found.append(Sureness(name, given.count(given[0]) / len(given), expected))
    return found


def expected_score(log_probabilities: Mapping[str, float], dimension: Dimension) -> float | None:
    """The mean of the scores that a token could have been, weighted by their probabilities.

    Tokens that are no score of `dimension` are left out and the rest made to sum to 1: sum(p * score)
    (G-Eval, Liu et al. 2023). None where no token is a score.
    """
    masses = _masses(log_probabilities, dimension)
    total = sum(masses.values())
    return sum(v * mass for v, mass in masses.items()) / total if total > 0 else None


def _share(log_probabilities: Mapping[str, float], value: float, dimension: Dimension) -> float:
    masses = _masses(log_probabilities, dimension)
    return masses.get(value, 0.0) / sum(masses.values())


def _masses(log_probabilities: Mapping[str, float], dimension: Dimension) -> dict[float, float]:
    masses: dict[float, float] = {}
    for token, log_probability in log_probabilities.items():
        value = _number(token)
        whole = dimension.type == "integer"
        if value is None or not dimension.min <= value <= dimension.max:
            continue
        if not whole or value.is_integer():
            masses[value] = masses.get(value, 0.0) + exp(log_probability)
    return masses


def _number(token: str) -> float | None:
    """The number a token is, whatever white space, comma or brace stands at it."""
    try:
        value = float(token.strip(' \t\r\n,}"'))
    except ValueError:
        return None
    return value if isfinite(value) else None


def _span(text: str, name: str) -> tuple[int, int] | None:
    """Where the value of the field stands in the JSON `text`; None unless in one place."""
    # Within a string, such as the rationale, a quotation mark has a backslash before it.
    places = list(re.finditer(rf'(?<!\\)"{name}"\s*:\s*', text))
    if len(places) != 1:
        return None
    start = places[0].end()
    try:
        _, end = json.JSONDecoder().raw_decode(text, start)
    except ValueError:
        return None
    return start, end


def _overlapping(tokens: Sequence[Token], start: int, end: int) -> list[Token]:
    found, place = [], 0
    for token in tokens:
        if place < end and place + len(token[0]) > start:
            found.append(token)
        place += len(token[0])
    return found
