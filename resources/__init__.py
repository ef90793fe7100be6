"""What has a connection or a lifetime. One setting, $GAVEL_SUITE, picks the file that settles them all."""

from __future__ import annotations

import dagster as dg

from gavel.suite import Suite
from resources.evaluators import Evaluators
from resources.logs import LogSource
from resources.prompts import PromptLibrary
from resources.storage import ParquetStore, PublishedScores

__all__ = [
    "Evaluators",
    "LogSource",
    "ParquetStore",
    "PromptLibrary",
    "PublishedScores",
    "build_resources",
]


def build_resources(suite: Suite) -> dict[str, dg.ConfigurableResource]:  # type: ignore[type-arg]
    """Every resource of the graph, under the name that assets ask for it by."""
    file = str(suite.file)
    return {
        "logs": LogSource(suite_file=file),
        "prompts": PromptLibrary(folder=str(suite.path(suite.prompts))),
        "evaluators": Evaluators(suite_file=file),
        "store": ParquetStore(root=str(suite.path(suite.store))),
        "warehouse": PublishedScores(suite_file=file),
    }
