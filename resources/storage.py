"""Where tables stand: Parquet files and the warehouse."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
from pydantic import Field

from gavel.publishing import warehouse_of
from gavel.store.files import Store
from gavel.store.warehouse import Publisher
from gavel.suite import load_suite
from resources.bigquery import connect


class ParquetStore(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The folder of every table, one Parquet file a partition, and of the ledger of answers."""

    root: str = Field(description="The folder that holds all tables")

    @property
    def files(self) -> Store:
        """The paths within."""
        return Store(Path(self.root))


class PublishedScores(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The warehouse that published scores are read from: a DuckDB file, or a dataset of BigQuery."""

    suite_file: str = Field(description="The suite file that names the warehouse")

    @property
    def database(self) -> Publisher:
        """The warehouse itself, opened only while it is written or read."""
        return warehouse_of(load_suite(self.suite_file), connect)
