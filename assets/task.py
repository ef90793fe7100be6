"""The chain of one task, made once a task: rubric, shards, verdicts, regeneration, scores."""

import dagster as dg

from assets.judging import judging_assets
from assets.rubric import rubric_asset
from assets.scoring import scoring_assets
from gavel.suite import Suite


def task_assets(suite: Suite, task: str) -> list[dg.AssetsDefinition]:
    """Every asset of `task`."""
    return [rubric_asset(task), *judging_assets(suite, task), *scoring_assets(suite, task)]
