"""Which backend answers for an evaluator, and the judge of a task."""

from __future__ import annotations

from gavel.inference.budget import Spending
from gavel.inference.openai_compatible import OpenAICompatible
from gavel.inference.request import Backend
from gavel.inference.rules import Rules
from gavel.judge.evaluate import Judge
from gavel.judge.heuristic import REVISION, judge_by_rule
from gavel.judge.prompts import Prompts
from gavel.judge.rubric import Rubric
from gavel.suite import Budget, Evaluator, Suite


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
    return Judge(
        rubric, prompts, name, evaluator, backend_of(evaluator), spending_of(suite, evaluator)
    )


def spending_of(suite: Suite, evaluator: Evaluator) -> Spending | None:
    """What the budget of the day is kept by; None without a budget, and for rules, which cost nothing."""
    if suite.budget == Budget() or evaluator.backend == "heuristic":
        return None
    folder = suite.path(suite.store) / "spending"
    return Spending(folder, suite.budget, evaluator.prices, suite.zone)
