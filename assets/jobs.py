"""What a person or a sensor starts: a day's ingest, a shard's judging, a day's publication, a whole day."""

from collections.abc import Sequence
from typing import Any

import dagster as dg

from assets.alignment import alignment_jobs
from assets.benchmark import benchmark_jobs
from assets.dialogue import dialogue_jobs
from assets.fashion import fashion_jobs
from assets.pairwise import pairwise_jobs
from assets.partitions import DAY, SHARD, daily, shard_keys
from assets.processes import note_process, process_tags
from gavel.suite import Suite

RELEASE, INGEST, PUBLISH, WHOLE_DAY = "release_rubrics", "ingest_day", "publish_day", "evaluate_day"


def judge_job(task: str) -> str:
    """The name of the job that judges one shard of `task`."""
    return f"judge_{task}_shard"


def regenerate_job(task: str) -> str:
    """The name of the job that asks again for the unresolved records of one shard of `task`."""
    return f"regenerate_{task}_shard"


def build_jobs(suite: Suite) -> Sequence[Any]:
    """Every job of the daily evaluation, of alignment and of the benchmarks."""
    tasks = suite.task_names()
    return [
        dg.define_asset_job(
            RELEASE,
            selection=[f"{task}/rubric" for task in tasks],
            description="Release the rubrics as their files are now; needed before the first judging.",
        ),
        dg.define_asset_job(
            INGEST,
            selection=["logs/raw", "logs/clean", "logs/rejected"],
            tags=suite.run_tags.get("ingest"),
            description="Read one day's logs and clean them.",
        ),
        *(
            dg.define_asset_job(
                judge_job(task),
                selection=[
                    f"{task}/{n}"
                    for n in ("shards", "verdicts", "invalid", "regenerated", *_others(suite, task))
                ],
                tags=suite.run_tags.get("judge"),
                description=f"Judge one shard of one day's {task} records, and ask again for the invalid.",
            )
            for task in tasks
        ),
        *(
            dg.define_asset_job(
                regenerate_job(task),
                selection=[f"{task}/{n}" for n in ("regenerated", *_others(suite, task))],
                tags=suite.run_tags.get("judge"),
                description=f"Ask again for one shard's {task} records whose verdicts are still invalid.",
            )
            for task in tasks
        ),
        dg.define_asset_job(
            PUBLISH,
            selection=[
                *(f"{task}/{n}" for task in tasks for n in ("scores", "published", "quality")),
                "audit/events",
                "report/daily",
            ],
            tags=suite.run_tags.get("publish"),
            description="Score, publish and report one day whose shards are all judged.",
        ),
        _whole_day(suite),
        *alignment_jobs(),
        *benchmark_jobs(),
        *pairwise_jobs(suite),
        *dialogue_jobs(suite),
        *fashion_jobs(suite),
    ]


def _others(suite: Suite, task: str) -> Sequence[str]:
    """The last table of judging where evaluators besides the task's own are asked."""
    return ["opinions"] if suite.settings_of(task).others else []


def steps_of_a_day(suite: Suite, day: str) -> Sequence[tuple[str, str | None]]:
    """The runs that make up `day`, in order: each a job's name and its partition."""
    return [
        (INGEST, day),
        (RELEASE, None),
        *(
            (judge_job(task), dg.MultiPartitionKey({DAY: day, SHARD: shard}))
            for task in suite.task_names()
            for shard in shard_keys(suite)
        ),
        (PUBLISH, day),
    ]


def _whole_day(suite: Suite) -> dg.JobDefinition:
    """A run whose steps are the runs of a day, executed where it runs itself, so it holds no other slot.

    One asset job cannot do this: its assets would have to share one partitions definition.
    """

    @dg.op(description="Ingest, judge every shard, publish: one run each, one after another.")
    def every_step(context: dg.OpExecutionContext) -> None:
        note_process(context.instance, context.run)
        for name, partition in steps_of_a_day(suite, context.partition_key):
            context.log.info(f"{name}{'' if partition is None else f', {partition}'}")
            job = context.repository_def.get_job(name)
            result = job.execute_in_process(
                instance=context.instance,
                partition_key=partition,
                raise_on_error=False,
                tags={"dagster/parent_run_id": context.run.run_id, **process_tags()},
            )
            if not result.success:
                raise dg.Failure(
                    f"{name}{'' if partition is None else f' of {partition}'} failed, "
                    f"in run {result.run_id}; what was done before it is kept",
                    allow_retries=False,
                )

    @dg.job(
        name=WHOLE_DAY,
        partitions_def=daily(suite),
        description="One whole day: ingest, judge every shard, publish and report. One run a step.",
    )
    def evaluate_day() -> None:
        every_step()

    return evaluate_day
