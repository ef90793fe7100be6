"""The prompt library: rubrics as they stand in the files, and as they were released."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
from pydantic import Field

from gavel.judge.rubric import Rubric, load_rubric


class PromptLibrary(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The folder that holds one folder a task."""

    folder: str = Field(description="The folder with one folder a task")

    def rubric(self, task: str) -> Rubric:
        """The rubric of `task` as its files are now. Raises RubricError."""
        return load_rubric(Path(self.folder) / task)
