"""The settings of Celery's workers: a module of this name on PYTHONPATH is what dagster-celery looks for."""

import os

broker_url = os.environ["GAVEL_CELERY_BROKER"]
result_backend = broker_url

# A worker takes one run at a time, and holds no other back from the rest: not even one in reserve, which the queue
# would give to nobody else for an hour when the worker is killed.
worker_prefetch_multiplier = 1
worker_disable_prefetch = True
# A run is taken once. Were it given to another worker when its own is killed, Dagster would ignore it there: a run
# that was killed is ended, and the sensor `failed_partitions` asks for the partition anew.
task_acks_late = False
