"""The judges: which evaluator judges a task, and the backend it asks."""

from __future__ import annotations

import dagster as dg
from pydantic import Field

from gavel.judge.backends import judge_of, others_of
from gavel.judge.evaluate import Judge
from gavel.judge.opinions import Others
from gavel.judge.rubric import Rubric
from gavel.suite import load_suite


class Evaluators(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The evaluators of the suite, each with its endpoint and decoding settings."""

    suite_file: str = Field(description="The suite file that lists the evaluators")

    def judge(self, task: str, rubric: Rubric, name: str | None = None) -> Judge:
        """The judge of `task` by `rubric`: the evaluator called `name`, or the task's own."""
        return judge_of(load_suite(self.suite_file), task, rubric, name)

    def others(self, task: str, rubric: Rubric) -> Others:
        """The judges asked besides the task's own evaluator."""
        return others_of(load_suite(self.suite_file), task, rubric)
