"""The graph, wired together from suite.yaml."""

import dagster as dg

from assets import build_assets
from assets.jobs import build_jobs
from gavel.suite import load_suite
from resources import build_resources
from sensors.alerting import alert_sensor
from sensors.automation import automation_sensors
from sensors.inventory import inventory_checks, inventory_schedule
from sensors.labels import label_sensors
from sensors.predictions import prediction_sensors

suite = load_suite()
jobs = build_jobs(suite)

defs = dg.Definitions(
    assets=build_assets(suite),
    jobs=jobs,
    resources=build_resources(suite),
    sensors=[
        *automation_sensors(suite, jobs),
        alert_sensor(suite),
        *label_sensors(suite),
        *prediction_sensors(suite, jobs),
    ],
    asset_checks=inventory_checks(suite),
    schedules=[inventory_schedule(suite)],
    executor=dg.in_process_executor,
)
