"""The graph's assets, one module a stage of lineage. Thin: declare, call gavel/, attach metadata."""

import dagster as dg

from assets.alignment import alignment_assets
from assets.benchmark import benchmark_assets
from assets.dialogue import dialogue_assets
from assets.fashion import fashion_assets
from assets.logs import log_assets
from assets.pairwise import pairwise_assets
from assets.reporting import report_assets
from assets.task import task_assets
from gavel.suite import Suite


def build_assets(suite: Suite) -> list[dg.AssetsDefinition]:
    """Every asset: the logs, one chain a task, the audit and the report; alignment; the benchmarks."""
    tasks = suite.task_names()
    return [
        *log_assets(suite),
        *(asset for task in tasks for asset in task_assets(suite, task)),
        *report_assets(suite, tasks),
        *alignment_assets(suite),
        *benchmark_assets(suite),
        *pairwise_assets(suite),
        *dialogue_assets(suite),
        *fashion_assets(suite),
    ]
