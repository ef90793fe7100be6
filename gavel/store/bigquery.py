"""BigQuery: how it is reached, and the warehouse there: a day replaced whole in one transaction.

`{dataset}.{task}_scores` holds the scores without free text, for wide access;
`{dataset}_restricted.{task}_texts` holds customers' words and stands in a dataset of its own, whose access is
granted apart. Both are joined by row_id.
"""

from __future__ import annotations

import datetime as dt
import os
import re
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gavel.columns import describe
from gavel.errors import GavelError, StoreError, missing_extra
from gavel.store.warehouse import FREE_TEXT, About

PATIENCE = 60.0
"""Seconds within which a request is tried again while BigQuery cannot be reached or is overloaded."""

STORAGE_EMULATOR_VARIABLE = "BIGQUERY_STORAGE_EMULATOR_HOST"
"""Environment variable naming a server to use in place of the Storage Read API."""

Connect = Callable[[str | None, str | None], AbstractContextManager[Any]]
"""Opens a client of BigQuery that bills `project` and works in `location`; None is what the environment says."""

_TYPES = {
    "string": "STRING",
    "int32": "INTEGER",
    "int64": "INTEGER",
    "double": "FLOAT",
    "bool": "BOOLEAN",
    "date32[day]": "DATE",
    "timestamp[us, tz=UTC]": "TIMESTAMP",
}
_ALIASES = {"STRUCT": "RECORD", "INT64": "INTEGER", "FLOAT64": "FLOAT", "BOOL": "BOOLEAN"}
_RESENT = 3
"""How often a part of an upload is sent again, each try for its share of PATIENCE."""
_STAGED_FOR_DAYS = 1
"""Days after which BigQuery itself deletes what a killed publication staged."""
_NOTHING = About()


@contextmanager
def connected(project: str | None, location: str | None) -> Iterator[Any]:
    """A client by the credentials of the environment."""
    with told("BigQuery", StoreError):
        from google.cloud import bigquery

        client = bigquery.Client(project=project, location=location)
    try:
        yield client
    finally:
        client.close()


@contextmanager
def told(place: str, kind: type[GavelError]) -> Iterator[None]:
    """Tell in one sentence, as an error of `kind`, what BigQuery refused about `place`.

    Raises:
        MissingExtra: the packages are not installed.
    """
    try:
        from google.api_core.exceptions import (
            ClientError,
            Conflict,
            Forbidden,
            GoogleAPIError,
            NotFound,
        )
        from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
        from google.cloud import bigquery  # noqa: F401
        from requests.exceptions import RequestException
    except ImportError as error:
        raise missing_extra("tables in BigQuery", "gcp") from error
    try:
        yield
    except NotFound as error:
        raise kind(
            f"{place}: is not there ({_short(error)}); make it, or correct the name"
        ) from error
    except (Forbidden, DefaultCredentialsError) as error:
        raise kind(
            f"{place}: may not be used ({_short(error)}); accepted: credentials by GOOGLE_APPLICATION_CREDENTIALS "
            "or a workload identity, with the roles in docs/cloud.md"
        ) from error
    except ClientError as error:
        if isinstance(error, Conflict) or "concurrent update" in str(error):
            raise kind(
                f"{place}: another has changed it at the same time, and what that wrote stands ({_short(error)}); "
                "run again"
            ) from error
        raise kind(f"{place}: BigQuery refuses it: {_short(error)}") from error
    except (
        *(GoogleAPIError, GoogleAuthError),
        *(RequestException, ConnectionError, TimeoutError),
    ) as error:
        raise kind(
            f"{place}: BigQuery cannot be reached within {PATIENCE:.0f} s ({_short(error)}); what was there stays "
            "as it was; run again when it is back"
        ) from error
    except OSError as error:
        if "Project" not in str(error):
            raise
        raise kind(
            f"{place}: no project is known to bill ({_short(error)}); set `project` under bigquery in suite.yaml"
        ) from error


def run(
    client: Any,
    query: str,
    parameters: Mapping[str, tuple[str, Any]] | None = None,
    **settings: Any,
) -> Any:
    """The job of `query`, under way; `parameters` are type and value by name, `settings` those of a query job."""
    from google.cloud import bigquery

    values = [
        bigquery.ScalarQueryParameter(name, kind, value)
        for name, (kind, value) in (parameters or {}).items()
    ]
    config = bigquery.QueryJobConfig(query_parameters=values, **settings)
    return client.query(query, job_config=config, retry=patient(), job_retry=None, timeout=PATIENCE)


def rows(job: Any) -> Any:
    """The rows of `job`, once it is done."""
    _wait(job)
    return job.result(retry=patient(), job_retry=None, timeout=PATIENCE)


def _wait(job: Any) -> None:
    """Wait until `job` is done, however long it takes, as long as BigQuery answers.

    The library's own wait has a bound for all of it, or none for a server that takes a request and says nothing.
    """
    pause = 0.05
    while not job.done(retry=patient(), timeout=PATIENCE):
        time.sleep(pause)
        pause = min(2 * pause, 2.0)


def arrow(client: Any, found: Any) -> Iterator[pa.RecordBatch]:
    """The rows of a job as Arrow, streamed: by the Storage Read API, or in pages from an emulator without it."""
    with warnings.catch_warnings():
        # The library's own pages are to move to another package one day.
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        yield from found.to_arrow_iterable(bqstorage_client=_storage(client))


def _storage(client: Any) -> Any:
    from google.cloud import bigquery_storage
    from google.cloud.bigquery_storage_v1.services.big_query_read.transports import (
        BigQueryReadGrpcTransport,
    )

    if emulator := os.environ.get(STORAGE_EMULATOR_VARIABLE):
        import grpc

        transport = BigQueryReadGrpcTransport(channel=grpc.insecure_channel(emulator))
        return bigquery_storage.BigQueryReadClient(transport=transport)
    if os.environ.get("BIGQUERY_EMULATOR_HOST"):
        return None
    return bigquery_storage.BigQueryReadClient(credentials=client._credentials)


def patient(seconds: float | None = None) -> Any:
    """Try again what may be tried again, for so long."""
    from google.cloud.bigquery.retry import DEFAULT_RETRY

    return DEFAULT_RETRY.with_timeout(PATIENCE if seconds is None else seconds)


def label(text: str) -> str:
    """`text` as the value of a label: lower-case letters, digits, `-` and `_`, at most 63."""
    return re.sub(r"[^a-z0-9_-]", "-", text.lower())[:63]


def _short(error: Exception) -> str:
    message = getattr(error, "message", None) or str(error.__cause__ or error)
    return " ".join(str(message).split("\n\n")[0].split())[:300]


class BigQueryWarehouse:
    """The warehouse in `dataset` of `project`; both datasets are made when first written to.

    Every method raises StoreError where BigQuery cannot be reached or refuses.
    """

    def __init__(
        self, project: str, dataset: str, location: str | None = None, connect: Connect = connected
    ) -> None:
        self.project = project
        self.dataset = dataset
        self._location = location
        self._connect = connect

    def __str__(self) -> str:
        return f"bigquery://{self.project}/{self.dataset}"

    def publish(self, task: str, day: str, table: Path, about: About = _NOTHING) -> int:
        """Replace the rows of `day` by the valid rows of the Parquet file `table`; return their number.

        New columns are added, nullable; columns that `table` lacks become null.

        Raises:
            StoreError: a column changed its type.
        """
        with told(f"{self}", StoreError), self._connect(self.project, self._location) as client:
            labels = _labels(task, table, about)
            fields = _fields(pq.read_schema(table), about)
            open_to_all = {n: f for n, f in fields.items() if n not in FREE_TEXT}
            apart = {n: f for n, f in fields.items() if n in (*_KEY, *FREE_TEXT)}
            scores, texts = self._tables(task)
            for name in (self.dataset, f"{self.dataset}_restricted"):
                self._admit_dataset(client, name)
            for name, columns, clustered_by, holds in (
                (scores, open_to_all, ["language", "agent_version", "row_id"], "scores"),
                (texts, apart, ["row_id"], "texts of the scored records"),
            ):
                made = self._described(name, columns, clustered_by, labels)
                made.description = f"The {task} {holds} of every published day; valid ones only"
                _admit_table(client, made, columns)
            apart_from_others = f"{task}_{day.replace('-', '')}_{uuid.uuid4().hex}"
            staged = f"{self.project}.{self.dataset}_restricted.staged_{apart_from_others}"
            try:
                _stage(client, staged, table, fields, labels)
                replaced = "".join(
                    _replace(name, staged, day, columns)
                    for name, columns in ((scores, open_to_all), (texts, apart))
                )
                transaction = f"BEGIN TRANSACTION;\n{replaced}COMMIT TRANSACTION;"
                rows(run(client, transaction, labels=labels))
            finally:
                _drop(client, staged)
            return self._count(client, task, day)

    def _count(self, client: Any, task: str, day: str) -> int:
        """The rows of `day`, of which each table holds the same."""
        scores, texts = self._tables(task)
        query = (
            f"SELECT count(*) AS scores, (SELECT count(*) FROM `{texts}` WHERE day = @day) AS texts "
            f"FROM `{scores}` WHERE day = @day"
        )
        (found,) = rows(run(client, query, {"day": ("DATE", day)}))
        if found["scores"] != found["texts"]:
            raise StoreError(
                f"{scores}, {day}: holds {found['scores']:,} rows, {texts} {found['texts']:,}, which one "
                "transaction wrote; someone else changed one of them: publish the day again"
            )
        return int(found["scores"])

    def published(self, task: str, row_id: str) -> Sequence[str]:
        """The days under which `row_id` is published, normally one or none."""
        scores, _ = self._tables(task)
        query = f"SELECT DISTINCT CAST(day AS STRING) AS day FROM `{scores}` WHERE row_id = @row_id ORDER BY day"
        with told(scores, StoreError), self._connect(self.project, self._location) as client:
            from google.api_core.exceptions import NotFound

            try:
                return [
                    row["day"] for row in rows(run(client, query, {"row_id": ("STRING", row_id)}))
                ]
            except NotFound:
                return []

    def admit(self, task: str, schema: pa.Schema) -> None:
        """Look whether rows of `schema` could be published, and write nothing.

        Raises:
            StoreError: BigQuery cannot be used, or a column holds another type.
        """
        with told(f"{self}", StoreError), self._connect(self.project, self._location) as client:
            from google.api_core.exceptions import NotFound

            fields = _fields(schema, _NOTHING)
            for name in self._tables(task):
                with suppress(NotFound):
                    table = client.get_table(name, retry=patient(), timeout=PATIENCE)
                    _widened(name, table.schema, fields)

    def _tables(self, task: str) -> tuple[str, str]:
        return (
            f"{self.project}.{self.dataset}.{task}_scores",
            f"{self.project}.{self.dataset}_restricted.{task}_texts",
        )

    def _admit_dataset(self, client: Any, name: str) -> None:
        from google.api_core.exceptions import NotFound
        from google.cloud import bigquery

        try:
            client.get_dataset(f"{self.project}.{name}", retry=patient(), timeout=PATIENCE)
        except NotFound:
            made = bigquery.Dataset(f"{self.project}.{name}")
            made.location = self._location
            client.create_dataset(made, exists_ok=True, retry=patient(), timeout=PATIENCE)

    @staticmethod
    def _described(
        name: str, fields: Mapping[str, Any], clustered_by: Sequence[str], labels: Mapping[str, str]
    ) -> Any:
        from google.cloud import bigquery

        table = bigquery.Table(name, schema=list(fields.values()))
        table.time_partitioning = bigquery.TimePartitioning(field="day")
        table.clustering_fields = [column for column in clustered_by if column in fields]
        table.labels = dict(labels)
        return table


_KEY = ("day", "row_id", "status")
_ALWAYS = (
    "day",
    "row_id",
    "source",
    "record_id",
    "task",
    "status",
    "evaluator",
    "model",
    "rubric_hash",
)
"""Columns that no published row lacks, whatever the rubric."""


def _stage(
    client: Any, staged: str, table: Path, fields: Mapping[str, Any], labels: Mapping[str, str]
) -> None:
    """Load the Parquet file `table` whole into the new table `staged`."""
    from google.api_core.exceptions import NotFound
    from google.cloud import bigquery

    schema = [_nullable(field) for field in fields.values() if field.name != "day"]
    lists = bigquery.ParquetOptions()
    lists.enable_list_inference = True
    config = bigquery.LoadJobConfig(
        source_format="PARQUET",
        schema=schema,
        write_disposition="WRITE_TRUNCATE",
        labels=dict(labels),
        parquet_options=lists,
    )
    empty = bigquery.Table(staged, schema=schema)
    empty.expires = _soon()
    client.create_table(empty, exists_ok=True, retry=patient(), timeout=PATIENCE)

    def load() -> None:
        with table.open("rb") as file:
            job = client.load_table_from_file(
                file,
                staged,
                job_config=config,
                num_retries=_RESENT,
                timeout=PATIENCE / (_RESENT + 1),
            )
        _wait(job)
        job.result(retry=patient(), timeout=PATIENCE)

    try:
        load()
    except NotFound:
        # An upload whose last reply was lost may be known no more; loading it again replaces what it loaded.
        load()


def _drop(client: Any, staged: str) -> None:
    """Delete what was staged; where that fails, BigQuery does it when it expires."""
    from google.api_core.exceptions import GoogleAPIError
    from requests.exceptions import RequestException

    with suppress(GoogleAPIError, RequestException, ConnectionError):
        client.delete_table(
            staged, not_found_ok=True, retry=patient(PATIENCE / 6), timeout=PATIENCE / 6
        )


def _admit_table(client: Any, made: Any, fields: Mapping[str, Any]) -> None:
    """Make the table as `made` describes it, or give the one that is there the columns that it lacks."""
    from google.api_core.exceptions import NotFound

    try:
        table = client.get_table(made.reference, retry=patient(), timeout=PATIENCE)
    except NotFound:
        client.create_table(made, exists_ok=True, retry=patient(), timeout=PATIENCE)
        return
    table.schema = _widened(str(made.reference), table.schema, fields)
    table.labels = {**table.labels, **made.labels}
    client.update_table(table, ["schema", "labels"], retry=patient(), timeout=PATIENCE)


def _fields(schema: pa.Schema, about: About) -> dict[str, Any]:
    """The columns of a published day, with their types, modes and descriptions, by name."""
    from google.cloud import bigquery

    meanings = {"day": "The day in the suite's time zone", **describe(schema, about.meanings)}
    required = {*_ALWAYS, *about.required}
    fields = {"day": bigquery.SchemaField("day", "DATE", "REQUIRED", description=meanings["day"])}
    for column in schema:
        mode = "REQUIRED" if column.name in required else "NULLABLE"
        fields[column.name] = _field(column, mode, meanings[column.name])
    return fields


def _field(column: pa.Field, mode: str, meaning: str = "") -> Any:
    """A column as BigQuery has it: a list is a repeated field, a struct a record. Raises StoreError."""
    from google.cloud import bigquery

    kind = column.type
    if pa.types.is_list(kind):
        mode, kind = "REPEATED", kind.value_type
    if pa.types.is_struct(kind):
        name, parts = "RECORD", [_field(part, "NULLABLE") for part in kind]
    elif str(kind) in _TYPES:
        name, parts = _TYPES[str(kind)], []
    else:
        raise StoreError(
            f"column {column.name} holds {column.type}, which has no counterpart in BigQuery here; "
            f"accepted: lists and structs of {', '.join(_TYPES)}"
        )
    return bigquery.SchemaField(column.name, name, mode, description=meaning or None, fields=parts)


def _widened(table: str, there: Sequence[Any], wanted: Mapping[str, Any]) -> list[Any]:
    """The schema that holds what is `there` and what is `wanted`.

    Added columns are nullable, and what is no longer in every row becomes so.

    Raises:
        StoreError: a column would change its type.
    """
    from google.cloud import bigquery

    def kind(field: Any) -> str:
        name = _ALIASES.get(field.field_type, field.field_type)
        if field.fields:
            name = f"RECORD<{', '.join(f'{part.name} {kind(part)}' for part in field.fields)}>"
        return f"ARRAY<{name}>" if field.mode == "REPEATED" else str(name)

    schema = []
    for field in there:
        new = wanted.get(field.name)
        if new is not None and kind(new) != kind(field):
            raise StoreError(
                f"{table}: column {field.name} holds {kind(field)}, the new rows hold {kind(new)}; "
                "give the dimension or label another name, or move the old table away"
            )
        loose = field.mode == "REQUIRED" and (new is None or new.mode != "REQUIRED")
        schema.append(
            bigquery.SchemaField(
                field.name,
                field.field_type,
                "NULLABLE" if loose else field.mode,
                description=field.description if new is None else new.description,
                fields=field.fields,
            )
        )
    names = {field.name for field in there}
    return schema + [_nullable(field) for field in wanted.values() if field.name not in names]


def _nullable(field: Any) -> Any:
    """The same column, which rows may lack."""
    from google.cloud import bigquery

    mode = "REPEATED" if field.mode == "REPEATED" else "NULLABLE"
    return bigquery.SchemaField(
        field.name, field.field_type, mode, description=field.description, fields=field.fields
    )


def _replace(table: str, staged: str, day: str, fields: Mapping[str, Any]) -> str:
    columns = ", ".join(f"`{name}`" for name in fields)
    values = ", ".join(f"DATE '{day}'" if name == "day" else f"`{name}`" for name in fields)
    return (
        f"DELETE FROM `{table}` WHERE day = DATE '{day}';\n"
        f"INSERT INTO `{table}` ({columns}) SELECT {values} FROM `{staged}` WHERE status = 'valid';\n"
    )


def _labels(task: str, table: Path, about: About) -> dict[str, str]:
    """What made the day: the run, and the settings of the evaluator if it was one."""
    hashes = pc.unique(pq.read_table(table, columns=["config_hash"])["config_hash"]).to_pylist()
    config = hashes[0] if len(hashes) == 1 else "several" if hashes else "none"
    return {
        "gavel_task": label(task),
        "gavel_run": label(about.run_id),
        "gavel_config": label(str(config)),
    }


def _soon() -> dt.datetime:
    return dt.datetime.now(dt.UTC) + dt.timedelta(days=_STAGED_FOR_DAYS)
