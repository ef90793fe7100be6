"""Reading an answer: the verdict it holds, or every fault that makes it invalid.

Nothing is guessed: a value is taken as it stands or it is a fault. A score is never clamped, a label never
matched loosely, null never becomes 0.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyjson5

from gavel.judge.prompts import Fault
from gavel.judge.rubric import Dimension, Rubric

FAULTS = {
    "not_json": "the answer holds no single JSON object",
    "missing_field": "a dimension, label or the rationale is absent",
    "wrong_type": "a value is not of the type asked for",
    "out_of_range": "a number is outside its bounds",
    "unknown_label": "a label's value is not in its closed set",
    "label_mismatch": "a nested label stands under another parent",
    "truncated": "the answer was cut at max_tokens",
    "empty_response": "the answer is empty",
    "refused": "the model declined to judge",
    "context_overflow": "the request did not fit the model's context",
    "content_filter": "the server's filter stopped request or answer",
    "timeout": "no answer came in time, in every try",
    "transport": "the request failed on its way, in every try",
}
"""Every reason code of an invalid verdict, with its meaning."""

_REFUSAL = re.compile(
    r"^\W*(i['’]?m sorry|i am sorry|sorry,|i can(['’]?t|not)\b|i am unable|i['’]m unable|i won['’]t|"
    r"as an ai\b|i must decline|i apologi[sz]e)",
    re.IGNORECASE,
)
_THINKING = re.compile(r"^\s*<think(?:ing)?>.*?(?:</think(?:ing)?>|$)", re.DOTALL)
_FENCED = re.compile(r"```[a-zA-Z0-9]*\s(.*?)```", re.DOTALL)
_KEY = re.compile(r"(\w+)[\"']?\s*:")
_CONFIDENCE = Dimension(name="confidence", type="number", min=0, max=1, description="")
_SHOWN = 200


@dataclass(slots=True)
class Reading:
    """What one answer says. `values` holds every accepted value, also beside faults.

    `mended` names how broken syntax was read (`json5`); None for plain JSON.
    """

    values: dict[str, Any] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    mended: str | None = None

    @property
    def valid(self) -> bool:
        """Whether the answer can become a score."""
        return not self.faults


class _NotANumber:
    """What JSON's unofficial NaN and Infinity are read as: no type that anything accepts."""

    def __repr__(self) -> str:
        return "NaN or Infinity"


class _Ambiguous(ValueError):
    """The text is JSON but says two things at once."""


def read_answer(answer: Mapping[str, Any], rubric: Rubric) -> Reading:
    """Read a ledger row (`text`, `finish_reason`, `refusal`, `failure`, `detail`) by the rubric."""
    found, mended, fault = read_object(answer)
    if found is None:
        return Reading(faults=[fault] if fault is not None else [])
    return _validated(found, rubric, mended)


def read_object(
    answer: Mapping[str, Any],
) -> tuple[dict[str, Any] | None, str | None, Fault | None]:
    """The one JSON object that a ledger row holds and how it was mended, or the fault that there is none."""
    text: str = answer["text"] or ""
    if answer["failure"] is not None:
        return None, None, Fault(answer["failure"], answer["detail"] or "")
    if answer["finish_reason"] == "length":
        return None, None, Fault("truncated", f"cut at max_tokens after {_shown(text[-60:])}")
    if answer["refusal"]:
        return None, None, Fault("refused", _shown(answer["refusal"]))
    if not text.strip():
        return None, None, Fault("empty_response", f"finish reason {answer['finish_reason']}")
    try:
        found, mended = _object(text)
    except _Ambiguous as error:
        return None, None, Fault("not_json", str(error))
    if found is None:
        code = "refused" if _REFUSAL.search(text) else "not_json"
        return None, None, Fault(code, _shown(text))
    return found, mended, None


def _validated(found: Mapping[str, Any], rubric: Rubric, mended: str | None) -> Reading:
    reading = Reading(mended=mended)
    values, faults = reading.values, reading.faults
    for dimension in rubric.dimensions:
        name = dimension.name
        if name not in found:
            faults.append(Fault("missing_field", name))
        elif (fault := _number_fault(found[name], dimension)) is not None:
            faults.append(fault)
        else:
            value = found[name]
            values[name] = None if value is None else float(value)
    for name in rubric.label_values:
        if name not in found:
            faults.append(Fault("missing_field", name))
        elif not isinstance(value := found[name], str):
            faults.append(Fault("wrong_type", f"{name}: {_shown(value)} is not a string"))
        elif value not in rubric.accepted[name]:
            faults.append(Fault("unknown_label", f"{name}: {_shown(value)}"))
        else:
            values[name] = value
    for label in rubric.labels:
        if label.nested is not None and label.name in values and label.nested in values:
            child, parent = values[label.nested], values[label.name]
            if (home := label.parents[child]) != parent:
                faults.append(
                    Fault(
                        "label_mismatch",
                        f"{label.nested} {child} belongs under {label.name} {home}, not {parent}",
                    )
                )
    _read_extras(found, rubric, reading)
    return reading


def _read_extras(found: Mapping[str, Any], rubric: Rubric, reading: Reading) -> None:
    """The rationale, where asked for, and the evaluator's confidence, which may be absent."""
    if rubric.rationale:
        rationale = found.get("rationale")
        if rationale is None:
            reading.faults.append(Fault("missing_field", "rationale"))
        elif not isinstance(rationale, str):
            reading.faults.append(
                Fault("wrong_type", f"rationale: {_shown(rationale)} is not a string")
            )
        elif not _storable(rationale):
            reading.faults.append(
                Fault("wrong_type", f"rationale: {_shown(rationale)} is not Unicode text")
            )
        else:
            reading.values["rationale"] = rationale
    confidence = found.get("confidence")
    if confidence is not None:
        if (fault := _number_fault(confidence, _CONFIDENCE)) is not None:
            reading.faults.append(fault)
        else:
            reading.values["confidence"] = float(confidence)


def _number_fault(value: Any, dimension: Dimension) -> Fault | None:
    name = dimension.name
    if value is None and dimension.optional:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return Fault("wrong_type", f"{name}: {_shown(value)} is not a number")
    # A whole number too large for a float is out of range all the same.
    if not dimension.min <= value <= dimension.max:
        bounds = f"{dimension.min:g} to {dimension.max:g}"
        return Fault("out_of_range", f"{name}: {_shown(value)} is not within {bounds}")
    if dimension.type == "integer" and isinstance(value, float) and not value.is_integer():
        return Fault("wrong_type", f"{name}: {value} is not a whole number")
    return None


def _object(text: str) -> tuple[dict[str, Any] | None, str | None]:
    """The one JSON object in `text`, whatever prose or fence stands around it, and how it was mended."""
    stripped = text.strip()
    if (found := _loads(stripped)) is not None:
        return found, None
    stripped = _THINKING.sub("", stripped).strip()
    # A brace in the prose hides every object; then the fences tell where one stands.
    objects = _embedded(stripped) or _distinct(
        found for match in _FENCED.finditer(stripped) if (found := _loads(match.group(1).strip()))
    )
    if len(objects) > 1:
        raise _Ambiguous(f"{len(objects)} different JSON objects; one is accepted")
    if objects:
        return objects[0], None
    start, end = stripped.find("{"), stripped.rfind("}")
    if 0 <= start < end:
        return _json5(stripped[start : end + 1]), "json5"
    return None, None


def _loads(text: str) -> dict[str, Any] | None:
    try:
        found = _DECODER.decode(text)
    except _Ambiguous:
        raise
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _embedded(text: str) -> list[dict[str, Any]]:
    """The different JSON objects that stand in `text` outside one another."""
    objects: list[dict[str, Any]] = []
    position = text.find("{")
    while position >= 0:
        try:
            found, position = _DECODER.raw_decode(text, position)
        except _Ambiguous:
            raise
        except (ValueError, RecursionError):
            # A brace in prose, or an object with broken syntax. What stands further on may be a part of
            # it, and an object before it may have been a draft: neither is taken for the answer.
            return []
        objects.append(found)
        position = text.find("{", position)
    return _distinct(objects)


def _distinct(objects: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """`objects` without repetitions; true is not 1."""
    return list(
        {json.dumps(found, sort_keys=True, default=repr): found for found in objects}.values()
    )


def _json5(text: str) -> dict[str, Any] | None:
    """Read JSON5 (trailing commas, single quotes, comments, bare keys): its grammar leaves no value open."""
    try:
        found = pyjson5.decode(text)
    except (pyjson5.Json5Exception, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    given = Counter(_KEY.findall(text))
    for key in found:
        if given[key] > 1:
            raise _Ambiguous(f"{_shown(key)} may be given more than once")
    return {
        key: _NotANumber() if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in found.items()
    }


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        repeated = sorted({key for key in keys if keys.count(key) > 1})
        raise _Ambiguous(f"{', '.join(map(_shown, repeated))} is given more than once")
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=lambda _: _NotANumber())


def _storable(text: str) -> bool:
    """Whether `text` is Unicode; JSON can spell half a surrogate pair, which no table can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "..."
