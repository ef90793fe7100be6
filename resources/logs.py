"""The sources that raw rows come from, and how they are cleaned."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import dagster as dg
from pydantic import Field

from gavel.logs.clean import CleanCounts, clean, write_raw
from gavel.suite import Suite, load_suite


class LogSource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The log sources of the suite: which rows belong to a day, and which columns mean what."""

    suite_file: str = Field(description="The suite file that lists the sources")

    def suite(self) -> Suite:
        """The settings as they are now."""
        return load_suite(self.suite_file)

    def write_raw(self, day: str, raw: Path) -> int:
        """Write the day's source rows verbatim; return how many. Raises SourceError."""
        return write_raw(self.suite(), dt.date.fromisoformat(day), raw)

    def write_clean(self, raw: Path, clean_path: Path, rejected: Path) -> CleanCounts:
        """Write the day's records and its rejected rows. Raises SourceError."""
        suite = self.suite()
        return clean(suite, raw, clean_path, rejected, suite.task_names())
