"""Where tables stand: Parquet files and the warehouse."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
from pydantic import Field

from gavel.store.files import Store
from gavel.store.warehouse import Warehouse


class ParquetStore(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The folder of every table, one Parquet file a partition, and of the ledger of answers."""

    root: str = Field(description="The folder that holds all tables")

    @property
    def files(self) -> Store:
        """The paths within."""
        return Store(Path(self.root))


class DuckDBWarehouse(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The DuckDB file that published scores are read from."""

    file: str = Field(description="The DuckDB file")

    @property
    def database(self) -> Warehouse:
        """The warehouse itself, opened only while it is written or read."""
        return Warehouse(Path(self.file))
