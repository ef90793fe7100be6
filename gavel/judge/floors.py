"""The floor of every benchmark: judges that give each record the same answer, whatever it says."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from gavel.inference.rules import Rules
from gavel.judge.evaluate import Judge
from gavel.judge.prompts import Prompts
from gavel.judge.rubric import Dimension, Rubric
from gavel.settings.judging import Evaluator

Answer = dict[str, Any]


def fixed_judge(name: str, rubric: Rubric, answer: Mapping[str, Any]) -> Judge:
    """The judge called `name` that answers every request with `answer`; another answer is another model."""
    text = json.dumps(answer, ensure_ascii=False)
    model = f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    evaluator = Evaluator(backend="heuristic", model=model)
    prompts = Prompts(rubric, f"released rubric {rubric.task} {rubric.version}")
    return Judge(rubric, prompts, name, evaluator, Rules(lambda request: text, model))


def constant_answer(rubric: Rubric) -> Answer:
    """The middle of every dimension, and of every label the value that stands first."""
    answer: Answer = {}
    if rubric.rationale:
        answer["rationale"] = "The same answer to every record."
    for dimension in rubric.dimensions:
        answer[dimension.name] = _fitting((dimension.min + dimension.max) / 2, dimension)
    for label in rubric.labels:
        first = label.values[0]
        answer[label.name] = first.name
        if label.nested is not None:
            answer[label.nested] = first.values[0].name
    return answer


def majority_answer(rubric: Rubric, people: Mapping[str, Sequence[Any]]) -> Answer:
    """The most frequent value of each field among `people`'s; of a field nobody judged, the constant.

    A nested label is the most frequent one under the most frequent parent. Ties go to the value that stands
    first in the rubric, or is the lowest.
    """
    answer = constant_answer(rubric)
    for dimension in rubric.dimensions:
        values = [_fitting(value, dimension) for value in people.get(dimension.name, ())]
        if values:
            counts = Counter(values)
            answer[dimension.name] = min(counts, key=lambda value: (-counts[value], value))
    for label in rubric.labels:
        parents = Counter(people.get(label.name, ()))
        value = max(label.values, key=lambda value: parents[value.name])
        answer[label.name] = value.name
        if label.nested is not None:
            children = Counter(people.get(label.nested, ()))
            answer[label.nested] = max(value.values, key=lambda child: children[child.name]).name
    return answer


def _fitting(value: float, dimension: Dimension) -> float:
    """`value` as an answer may hold it: whole where the dimension is."""
    return round(value) if dimension.type == "integer" else float(value)
