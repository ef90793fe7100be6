"""The graph, wired together from suite.yaml."""

import dagster as dg

from assets import build_assets
from assets.jobs import build_jobs
from gavel.suite import load_suite
from resources import build_resources
from sensors.predictions import prediction_sensors

suite = load_suite()

defs = dg.Definitions(
    assets=build_assets(suite),
    jobs=build_jobs(suite),
    resources=build_resources(suite),
    sensors=prediction_sensors(suite),
    executor=dg.in_process_executor,
)
