"""What every table of the graph tells Dagster: its rows, columns, content version and validity."""

import hashlib
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

import dagster as dg
import pandera.errors
import polars as pl
import pyarrow.parquet as pq

from assets.processes import note_process
from gavel.columns import describe
from gavel.errors import EvaluatorOutage, GavelError
from gavel.judge.evaluate import Judged
from gavel.judge.rubric import Rubric
from gavel.store.bucket import shown
from gavel.store.manifests import Manifest, signature_hash, write_manifest
from gavel.store.tables import content_hash, repeated_values, row_count

OWNERS = ["team:evaluation"]
VALID_ROWS = "valid_rows"
FAILURE_TAG = "gavel/failure"
"""The tag of a failed run: the class of its error, or `check:` and the name of the check that failed."""

CODE_VERSION = "3"
"""Raised whenever an asset would make another table of the same input."""

_SHOWN = 5
_BATCH = 50_000

if TYPE_CHECKING:
    Result: TypeAlias = dg.MaterializeResult[Any]
else:
    # Dagster reads return annotations and does not know the parametrised form.
    Result = dg.MaterializeResult

P = ParamSpec("P")
T = TypeVar("T")


def pages_version(pages: Iterable[str]) -> dg.DataVersion:
    """The data version of an asset that is pages: the hash of their texts."""
    return dg.DataVersion(hashlib.sha256("\0".join(pages).encode()).hexdigest()[:32])


def table_result(
    key: Sequence[str],
    path: Path,
    *,
    volatile: Iterable[str] = (),
    rubric: Rubric | None = None,
    metadata: Mapping[str, Any] | None = None,
    checks: Sequence[dg.AssetCheckResult] = (),
    manifest: Manifest | None = None,
) -> Result:
    """The materialisation of the table at `path`; its data version is the hash of its content.

    `manifest` is written beside the table with that hash, unless a check has failed: what a check stops
    is not made.
    """
    content = content_hash(path, volatile)
    tags = {}
    if manifest is not None and not failed_checks(checks):
        figures = {"content": content, **manifest.figures}
        write_manifest(path.with_suffix(".json"), replace(manifest, figures=figures))
        tags["gavel/signature"] = signature_hash(manifest.signature)
    schema = pq.read_schema(path)
    meanings = describe(schema, {} if rubric is None else rubric.meanings)
    columns = [dg.TableColumn(f.name, str(f.type), meanings[f.name] or None) for f in schema]
    return dg.MaterializeResult(
        asset_key=dg.AssetKey(key),
        data_version=dg.DataVersion(content),
        tags=tags,
        metadata={
            "dagster/row_count": row_count(path),
            "dagster/column_schema": dg.TableSchema(columns),
            "path": dg.MetadataValue.path(shown(path)),
            **{name: value for name, value in (metadata or {}).items() if value is not None},
        },
        # Where an op makes several assets, a check has to say whose it is.
        check_results=[check._replace(asset_key=dg.AssetKey(key)) for check in checks],
    )


def failed_checks(checks: Sequence[dg.AssetCheckResult]) -> list[str]:
    """The names of the checks that stop what is downstream."""
    return [
        str(check.check_name)
        for check in checks
        if not check.passed and check.severity == dg.AssetCheckSeverity.ERROR
    ]


def equality(name: str, sides: Mapping[str, int], holds: bool) -> dg.AssetCheckResult:
    """The result of one equality of the accounting; `sides` are its figures, by what they count."""
    return dg.AssetCheckResult(
        check_name=name,
        passed=holds,
        severity=dg.AssetCheckSeverity.ERROR,
        description="; ".join(f"{what}: {count:,}" for what, count in sides.items()),
        metadata=dict(sides),
    )


def warning(
    name: str, sentences: Sequence[str], metadata: Mapping[str, Any]
) -> dg.AssetCheckResult:
    """A check that warns with `sentences`, and passes where there are none."""
    return dg.AssetCheckResult(
        check_name=name,
        passed=not sentences,
        severity=dg.AssetCheckSeverity.WARN,
        description="\n".join(sentences) or "nothing to warn about",
        metadata=dict(metadata),
    )


def valid_rows(path: Path, schema: Any, unique: str | None = None) -> dg.AssetCheckResult:
    """The result of the pandera `schema` on the table at `path`: which rules fail, how often, examples.

    Rows are read a batch at a time, so what must be unique over the whole table is named in `unique`.
    """
    failures: Counter[str] = Counter()
    examples: list[str] = []
    for batch in pq.ParquetFile(path).iter_batches(_BATCH, columns=_columns(path, schema)):
        try:
            schema.validate(pl.from_arrow(batch), lazy=True)
        except pandera.errors.SchemaErrors as error:
            cases = error.failure_cases
            failures.update(
                f"{case['column']}: {case['check']}" for case in cases.iter_rows(named=True)
            )
            examples += [str(case) for case in cases.head(_SHOWN).iter_rows(named=True)]
    if unique is not None and (repeated := repeated_values(path, unique)):
        failures[f"{unique}: unique"] = repeated
    described = [f"{rule} ({count:,} rows)" for rule, count in failures.most_common(_SHOWN)]
    return dg.AssetCheckResult(
        check_name=VALID_ROWS,
        passed=not failures,
        description="; ".join(described) or "every row fits its schema",
        metadata={"failures": failures.total(), "examples": examples[:_SHOWN]},
    )


def _columns(path: Path, schema: Any) -> list[str]:
    """The columns a check reads: those it declares; none of them is a long text it says nothing of."""
    return [name for name in pq.read_schema(path).names if name in schema.columns]


def declared_asset(
    key: dg.AssetKey,
    description: str,
    *,
    group: str,
    kinds: set[str],
    partitions: dg.PartitionsDefinition[Any] | None = None,
    deps: Sequence[dg.AssetKey | dg.AssetDep] = (),
    checks: Sequence[dg.AssetCheckSpec] = (),
    pool: str | None = None,
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """An asset as every asset of the graph is declared; its errors for people show as their sentence."""

    def decorate(compute: Callable[..., Any]) -> dg.AssetsDefinition:
        return dg.asset(
            key=key,
            description=description,
            group_name=group,
            kinds=kinds,
            owners=OWNERS,
            code_version=CODE_VERSION,
            partitions_def=partitions,
            deps=list(deps),
            check_specs=by_partition(checks, partitions),
            pool=pool,
        )(told_plainly(compute))

    return decorate


def declared_spec(
    key: dg.AssetKey,
    description: str,
    *,
    group: str,
    kinds: set[str],
    deps: Sequence[dg.AssetKey],
) -> dg.AssetSpec:
    """One of several assets that one computation makes, declared as every asset of the graph is."""
    return dg.AssetSpec(
        key,
        description=description,
        group_name=group,
        kinds=kinds,
        owners=OWNERS,
        code_version=CODE_VERSION,
        deps=list(deps),
    )


def check_spec(
    name: str, asset: dg.AssetKey, description: str, *, blocking: bool = True
) -> dg.AssetCheckSpec:
    """A check that stops what is downstream when it fails, or (`blocking=False`) only warns."""
    return dg.AssetCheckSpec(name, asset=asset, blocking=blocking, description=description)


def by_partition(
    checks: Sequence[dg.AssetCheckSpec], partitions: dg.PartitionsDefinition[Any] | None
) -> list[dg.AssetCheckSpec]:
    """The checks with the partitions of their asset, so that each result says of which day it is."""
    with warnings.catch_warnings():
        # In preview in this version of Dagster; tests hold it to what it does for one partition a run.
        warnings.simplefilter("ignore", dg.PreviewWarning)
        return [
            dg.AssetCheckSpec(
                spec.name,
                asset=spec.asset_key,
                blocking=spec.blocking,
                description=spec.description,
                partitions_def=partitions,
            )
            for spec in checks
        ]


def requests_of(attempts: Sequence[Judged]) -> dict[str, int]:
    """How many requests the attempts at a table of verdicts took and saved, as metadata."""
    return {
        "requests_sent": sum(attempt.asked.sent for attempt in attempts),
        "requests_saved": sum(attempt.asked.saved for attempt in attempts),
    }


def told_plainly(compute: Callable[P, T]) -> Callable[P, T]:
    """Turn an error meant for people into a step failure that shows its sentence alone.

    The run is tagged with the kind of failure, so that whoever decides about another try need not read its
    log. Only an outage may be retried at once: every other such error would come again.
    """

    @wraps(compute)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        context = args[0] if args else kwargs["context"]
        assert isinstance(context, dg.AssetExecutionContext)
        note_process(context.instance, context.run)
        try:
            result = compute(*args, **kwargs)
        except GavelError as error:
            _tag_failure(context, type(error).__name__)
            raise dg.Failure(
                description=str(error),
                metadata={"kind": type(error).__name__},
                allow_retries=isinstance(error, EvaluatorOutage),
            ) from None
        # A result is itself a tuple; only an op that makes several assets returns a plain one.
        parts: Any = (result,) if isinstance(result, dg.MaterializeResult) else result
        if failed := [n for part in parts for n in failed_checks(part.check_results or [])]:
            _tag_failure(context, f"check:{failed[0]}")
        return result

    return wrapped


def _tag_failure(context: dg.AssetExecutionContext, kind: str) -> None:
    context.instance.add_run_tags(context.run.run_id, {FAILURE_TAG: kind})
