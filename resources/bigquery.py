"""BigQuery, through the resource that dagster-gcp has for it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from gavel.errors import missing_extra


def connect(project: str | None, location: str | None) -> AbstractContextManager[Any]:
    """A client of BigQuery. Raises MissingExtra."""
    try:
        from dagster_gcp import BigQueryResource
    except ImportError as error:
        raise missing_extra("tables in BigQuery", "gcp") from error
    client: AbstractContextManager[Any] = BigQueryResource(
        project=project, location=location
    ).get_client()
    return client
