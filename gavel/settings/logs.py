"""Where logs come from."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, model_validator

from gavel.settings.section import Section


class Source(Section):
    """One place that logs come from.

    `path` may hold `{day}` (2026-11-02) or `{day:%Y/%m/%d}`, and `*`; without a day in it,
    `date_column` names the column whose date, in the suite's time zone, assigns rows to days.
    `columns` maps canonical names to the source's names, for those that the usual synonyms miss.
    `task` is the task of rows that have no task column.

    Of format `bigquery`, `path` is a table, `project.dataset.table`, and `date_column` its column of type DATE,
    TIMESTAMP or DATETIME. `query` gives the rows in the table's place, which then only tells when they change;
    `only` names the columns to be read, where not all are.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9_.-]+$")
    format: Literal["jsonl", "csv", "parquet", "bigquery"]
    path: str
    query: str | None = None
    only: list[str] = []
    date_column: str | None = None
    columns: dict[str, str] = {}
    task: str | None = None

    @model_validator(mode="after")
    def _days_can_be_told_apart(self) -> Source:
        if "://" in self.path and "@" in self.path.partition("://")[2].partition("/")[0]:
            raise ValueError(
                "path holds a name or key before its @, which would be shown in logs; give the address alone, and "
                "credentials in the environment of the runs"
            )
        if self.format == "bigquery":
            return self._table_is_named()
        if self.query is not None or self.only:
            raise ValueError(f"query and only are for format bigquery; format is {self.format!r}")
        if "{day" not in self.path and self.date_column is None:
            raise ValueError(
                f"path {self.path!r} holds no {{day}} and date_column is not set; "
                "one of the two must say which rows belong to a day"
            )
        return self

    def _table_is_named(self) -> Source:
        if not re.fullmatch(r"[A-Za-z0-9:_.-]+(\.[A-Za-z0-9_-]+){2}", self.path):
            raise ValueError(
                f"path {self.path!r} is no table of BigQuery; accepted: project.dataset.table"
            )
        if self.date_column is None:
            raise ValueError(
                "format bigquery needs date_column, the column that says which rows belong to a day"
            )
        return self


class BigQuery(Section):
    """How BigQuery is used. `project` is the one that pays; without it, the one of the credentials.

    A day of a source that would scan more than `max_gb_billed` (10^9 bytes) is refused before it costs anything.
    """

    project: str | None = None
    location: str | None = None
    max_gb_billed: float = Field(default=100.0, gt=0)
