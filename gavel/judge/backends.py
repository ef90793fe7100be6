"""Which backend answers for an evaluator, and the judge of a task."""

from __future__ import annotations

from gavel.inference.budget import Spending
from gavel.inference.openai_compatible import OpenAICompatible
from gavel.inference.request import Backend
from gavel.inference.rules import Rules
from gavel.inference.vllm_offline import VLLMOffline
from gavel.judge.evaluate import Judge
from gavel.judge.heuristic import REVISION, judge_by_rule
from gavel.judge.opinions import Others
from gavel.judge.prompts import Prompts
from gavel.judge.rubric import Rubric
from gavel.settings.judging import Evaluator, Prices
from gavel.suite import Suite


def backend_of(evaluator: Evaluator) -> Backend:
    """The backend that answers for `evaluator`."""
    if evaluator.backend == "heuristic":
        return Rules(judge_by_rule, REVISION)
    if evaluator.backend == "vllm_offline":
        return VLLMOffline(evaluator)
    return OpenAICompatible(evaluator)


def evaluator_named(suite: Suite, name: str) -> Evaluator:
    """The settings of the evaluator called `name`, with the model that it really is."""
    evaluator = suite.evaluators[name]
    if evaluator.backend == "heuristic":
        # Rules are their own model: answers of an older revision are not reused.
        return evaluator.model_copy(update={"model": REVISION})
    if evaluator.quantization is not None:
        # The same weights in fewer bits answer otherwise.
        model = f"{evaluator.model} ({evaluator.quantization})"
        return evaluator.model_copy(update={"model": model})
    return evaluator


def judge_of(suite: Suite, task: str, rubric: Rubric, name: str | None = None) -> Judge:
    """The judge of `task` by `rubric`: the evaluator called `name`, or the task's own."""
    name = name or suite.evaluator_of(task)[0]
    evaluator = evaluator_named(suite, name)
    prompts = Prompts(rubric, f"released rubric {rubric.task} {rubric.version}")
    return Judge(
        rubric, prompts, name, evaluator, backend_of(evaluator), spending_of(suite, evaluator)
    )


def others_of(suite: Suite, task: str, rubric: Rubric) -> Others:
    """The judges asked besides the task's own evaluator, as the suite settles it."""
    settings = suite.settings_of(task)
    members = [] if settings.panel is None else settings.panel.members
    larger = None if settings.escalation is None else settings.escalation.evaluator
    return Others(
        task,
        settings,
        [judge_of(suite, task, rubric, name) for name in members],
        None if larger is None else judge_of(suite, task, rubric, larger),
    )


def spending_of(suite: Suite, evaluator: Evaluator) -> Spending | None:
    """What the budget of the day is kept by; None for rules, which cost nothing.

    Without a budget it is kept too, for one that is set later in the day.
    """
    return None if evaluator.backend == "heuristic" else _spending(suite, evaluator.prices)


def budget_spent(suite: Suite) -> str | None:
    """What of today's budget is spent, in words; None while there is some left."""
    return _spending(suite, Prices()).spent(under_way=0)


def _spending(suite: Suite, prices: Prices) -> Spending:
    return Spending(suite.path(suite.store) / "spending", suite.budget, prices, suite.zone)
