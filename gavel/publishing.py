"""Which warehouse the suite names."""

from __future__ import annotations

from gavel.store.bigquery import BigQueryWarehouse, Connect, connected
from gavel.store.warehouse import Publisher, Warehouse
from gavel.suite import Suite


def warehouse_of(suite: Suite, connect: Connect = connected) -> Publisher:
    """The warehouse of `suite`, opened only while it is written or read."""
    if suite.dataset is None:
        return Warehouse(suite.path(suite.warehouse))
    return BigQueryWarehouse(*suite.dataset, suite.bigquery.location, connect)
