"""Asset `{task}/rubric`: what evaluators are asked, released under a version."""

from typing import Any

import dagster as dg

from assets.tables import Result, check_spec, declared_asset
from gavel.judge.prompts import Prompts
from gavel.judge.releases import drift_sentence, release
from gavel.judge.rubric import Rubric
from resources import ParquetStore, PromptLibrary


def rubric_asset(
    task: str, folder: str | None = None, group: str | None = None
) -> dg.AssetsDefinition:
    """The released rubric of `task`, from `folder` of the prompts where that has another name."""

    key = dg.AssetKey([task, "rubric"])

    @declared_asset(
        key,
        f"The released rubric of {task}: prompts, JSON Schema, label sets, hash.",
        group=group or task,
        kinds={"jinja", "yaml"},
        checks=[
            check_spec(
                "version_names_content",
                key,
                "A released version never changes its content without a new version",
            )
        ],
    )
    def rubric(
        context: dg.AssetExecutionContext, prompts: PromptLibrary, store: ParquetStore
    ) -> Result:
        found = prompts.rubric(folder or task)
        compiled = Prompts(found, f"{prompts.folder}/{folder or task}")
        compiled.check_fenced()
        drifted = release(store.files, found)
        check = dg.AssetCheckResult(
            check_name="version_names_content",
            passed=not drifted,
            description=drift_sentence(found, drifted) if drifted else "as released",
            metadata={drift.file: f"{drift.released} -> {drift.found}" for drift in drifted},
        )
        return dg.MaterializeResult(
            data_version=dg.DataVersion(found.hash),
            metadata=_shown(found, compiled),
            check_results=[check],
        )

    return rubric


def _shown(rubric: Rubric, prompts: Prompts) -> dict[str, Any]:
    dimensions = "\n".join(
        f"| {d.name} | {d.min:g}-{d.max:g} | {d.weight:g} | {d.description} |"
        for d in rubric.dimensions
    )
    return {
        "version": rubric.version,
        "hash": rubric.hash,
        "dimensions": dg.MetadataValue.md(
            f"| dimension | range | weight | meaning |\n|---|---|---|---|\n{dimensions}"
        ),
        "labels": {name: len(values) for name, values in rubric.label_values.items()},
        "json_schema": dg.MetadataValue.json(rubric.response_schema()),
        "prompt": dg.MetadataValue.md(f"```text\n{prompts.system}\n```"),
        "file_hashes": rubric.file_hashes,
        "prompt_characters": len(prompts.system),
    }
