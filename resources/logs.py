"""The sources that raw rows come from, and how they are cleaned."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import dagster as dg
from pydantic import Field

from gavel.logs.bigquery import Scan, scan_of
from gavel.logs.clean import CleanCounts, clean, write_raw
from gavel.suite import Suite, load_suite
from resources.bigquery import connect


class LogSource(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The log sources of the suite: which rows belong to a day, and which columns mean what."""

    suite_file: str = Field(description="The suite file that lists the sources")

    def suite(self) -> Suite:
        """The settings as they are now."""
        return load_suite(self.suite_file)

    def write_raw(self, day: str, raw: Path) -> int:
        """Write the day's source rows verbatim; return how many. Raises SourceError."""
        return write_raw(self.suite(), dt.date.fromisoformat(day), raw, connect)

    def scans(self, day: str) -> dict[str, Scan]:
        """What reading `day` will scan, by the name of each source in BigQuery. Raises SourceError."""
        suite = self.suite()
        return {
            source.name: scan_of(source, dt.date.fromisoformat(day), suite, connect)
            for source in suite.sources
            if source.format == "bigquery"
        }

    def write_clean(self, raw: Path, clean_path: Path, rejected: Path) -> CleanCounts:
        """Write the day's records and its rejected rows. Raises SourceError."""
        suite = self.suite()
        return clean(suite, raw, clean_path, rejected, suite.task_names())
