"""Which backend answers for an evaluator, and the judge of a task."""

from __future__ import annotations

from gavel.inference.openai_compatible import OpenAICompatible
from gavel.inference.request import Backend
from gavel.inference.rules import Rules
from gavel.judge.evaluate import Judge
from gavel.judge.heuristic import REVISION, judge_by_rule
from gavel.judge.prompts import Prompts
from gavel.judge.rubric import Rubric
from gavel.suite import Evaluator, Suite


def backend_of(evaluator: Evaluator) -> Backend:
    """The backend that answers for `evaluator`."""
    if evaluator.backend == "heuristic":
        return Rules(judge_by_rule, REVISION)
    return OpenAICompatible(evaluator)


def judge_of(suite: Suite, task: str, rubric: Rubric) -> Judge:
    """The judge of `task` by `rubric`, as the suite settles it."""
    name, evaluator = suite.evaluator_of(task)
    if evaluator.backend == "heuristic":
        # Rules are their own model: answers of an older revision are not reused.
        evaluator = evaluator.model_copy(update={"model": REVISION})
    prompts = Prompts(rubric, f"released rubric {task} {rubric.version}")
    return Judge(rubric, prompts, name, evaluator, backend_of(evaluator))
