"""The settings: `suite.yaml`, the one file a user edits, read into typed models.

Relative paths in the file are relative to the file. Unknown keys are errors, so that a typing
mistake cannot be taken for a default.
"""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin
from zoneinfo import ZoneInfo

from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from gavel.documents import kind_of, read_yaml
from gavel.errors import SuiteError
from gavel.settings.dialogue import Dialogue
from gavel.settings.fashion import MODELS_ALONE, SCRIPTED, Fashion
from gavel.settings.judging import Evaluator, Task
from gavel.settings.logs import BigQuery, Source
from gavel.settings.operation import Automation, Budget, Quality
from gavel.settings.section import Section
from gavel.settings.trust import FLOORS, PAIRWISE, Alignment, Benchmark
from gavel.store.bucket import bucket_of, copy_of, is_bucket, shown

BIGQUERY = "bigquery://"
SUITE_VARIABLE = "GAVEL_SUITE"
"""Environment variable naming the suite file: the one setting that moves Gavel to another setup."""


def _known_timezone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(
            f"{name!r} is not an IANA time zone such as UTC or Europe/Berlin"
        ) from error
    return name


class Suite(Section):
    """Everything a user settles, apart from the prompts themselves.

    `run_tags` are what Dagster's launchers read of a run: resources of its pod, the queue of its worker.
    """

    name: str = "gavel"
    timezone: Annotated[str, AfterValidator(_known_timezone)] = "UTC"
    first_day: dt.date
    last_day: dt.date | None = None
    store: str = "data"
    warehouse: str = "data/warehouse.duckdb"
    prompts: str = "prompts"
    sources: list[Source] = Field(min_length=1)
    evaluators: dict[str, Evaluator] = Field(min_length=1)
    evaluator: str
    tasks: dict[str, Task] = {}
    shards: int = Field(default=4, ge=1, le=1000)
    regeneration_attempts: int = Field(default=3, ge=0, le=10)
    memory_limit: str = Field(default="2GB", pattern=r"^\d+(\.\d+)?\s?(MB|GB|MiB|GiB)$")
    quality: Quality = Quality()
    automation: Automation = Automation()
    budget: Budget = Budget()
    alignment: Alignment = Alignment()
    dialogue: Dialogue | None = None
    benchmark: Benchmark = Benchmark()
    fashion: Fashion | None = None
    bigquery: BigQuery = BigQuery()
    run_tags: dict[Literal["ingest", "judge", "publish"], dict[str, Any]] = {}

    _file: Path = PrivateAttr(default=Path("suite.yaml"))

    @model_validator(mode="after")
    def _names_are_known(self) -> Suite:
        for key, name in [
            ("evaluator", self.evaluator),
            *((f"tasks.{t}.evaluator", s.evaluator) for t, s in self.tasks.items()),
            *((f"tasks.{t}", name) for t, s in self.tasks.items() for name in s.others),
        ]:
            if name is not None and name not in self.evaluators:
                raise ValueError(
                    f"{key} is {name!r}, which is not under evaluators; "
                    f"accepted: {', '.join(sorted(self.evaluators))}"
                )
        for key, name in ({} if self.fashion is None else self.fashion.evaluators()).items():
            known = self.evaluators.get(name)
            if known is None or known.backend == "heuristic":
                models = sorted(n for n, e in self.evaluators.items() if e.backend != "heuristic")
                rules = [] if key.startswith(MODELS_ALONE) else [SCRIPTED]
                raise ValueError(
                    f"fashion.{key} is {name!r}, which is no model under evaluators; "
                    f"accepted: {', '.join([*rules, *models]) or 'none, there is no model'}"
                )
        for task, settings in self.tasks.items():
            asked = [settings.evaluator or self.evaluator, *settings.others]
            if again := [name for name in asked if asked.count(name) > 1]:
                raise ValueError(
                    f"tasks.{task} asks {again[0]!r} more than once; evaluator, panel.members and "
                    "escalation.evaluator name different evaluators"
                )
        for name, evaluator in self.evaluators.items():
            floor = name in FLOORS and (name, evaluator.backend) != ("heuristic", "heuristic")
            if floor or not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
                raise ValueError(
                    f"evaluators: {name!r} cannot name an evaluator; accepted: letters, digits, _ . and -, "
                    f"and none of {', '.join(FLOORS)}, which every benchmark has"
                )
        names = [source.name for source in self.sources]
        if repeated := sorted({n for n in names if names.count(n) > 1}):
            raise ValueError(f"sources repeat the name {', '.join(repeated)}; each needs its own")
        return self

    @model_validator(mode="after")
    def _days_and_places_can_be(self) -> Suite:
        if self.last_day is not None and self.last_day < self.first_day:
            raise ValueError(f"last_day {self.last_day} is before first_day {self.first_day}")
        if Path(self.warehouse) == Path(self.store):
            raise ValueError(
                f"warehouse and store are both {self.store!r}; the store is a folder, the warehouse a file, "
                "such as data and data/warehouse.duckdb"
            )
        if self.warehouse.startswith(BIGQUERY) and self.dataset is None:
            raise ValueError(
                f"warehouse is {self.warehouse!r}; accepted: a DuckDB file, or bigquery://project/dataset"
            )
        return self

    @property
    def dataset(self) -> tuple[str, str] | None:
        """Project and dataset of the warehouse in BigQuery; None where it is a file."""
        hit = re.fullmatch(r"bigquery://([A-Za-z0-9:.-]+)/([A-Za-z0-9_]+)", self.warehouse)
        return None if hit is None else (hit[1], hit[2])

    @property
    def folder(self) -> Path:
        """The folder of the suite file, which relative paths start from."""
        return self._file.parent

    @property
    def file(self) -> Path:
        """The suite file itself."""
        return self._file

    def path(self, relative: str) -> Path:
        """`relative` from the suite's folder; an absolute path stays as it is, of gs:// it is the copy's."""
        return copy_of(relative) if is_bucket(relative) else self.folder / relative

    @property
    def zone(self) -> ZoneInfo:
        """The time zone that says what a day is."""
        return ZoneInfo(self.timezone)

    def task_names(self) -> list[str]:
        """The tasks: every folder under `prompts/` that holds a rubric.yaml, in alphabetical order.

        Raises:
            SuiteError: there is none, one cannot name a table, or `tasks` names one that has no folder.
        """
        prompts = self.path(self.prompts)
        found = sorted(p.parent.name for p in prompts.glob("*/rubric.yaml"))
        if not found:
            raise SuiteError(
                f"{shown(self._file)}: prompts: no folder of {shown(prompts)} holds a rubric.yaml"
            )
        if wrong := [name for name in found if not re.fullmatch(r"[a-z][a-z0-9_]*", name)]:
            raise SuiteError(
                f"{shown(self._file)}: prompts: the folder {shown(prompts / wrong[0])} cannot name a task; "
                "accepted: lower-case letters, digits and _"
            )
        if PAIRWISE in found and self.benchmark.pairs is not None:
            raise SuiteError(
                f"{self._file}: prompts: {prompts / PAIRWISE} cannot be a task beside benchmark.pairs, whose "
                "rubric has that name; give the folder another one"
            )
        if unknown := sorted(set(self.tasks) - set(found)):
            raise SuiteError(
                f"{shown(self._file)}: tasks.{unknown[0]}: there is no "
                f"{shown(prompts / unknown[0] / 'rubric.yaml')}; "
                f"accepted: {', '.join(found)}"
            )
        return found

    def benchmarked(self) -> list[str]:
        """The evaluators of the benchmark: the suite's, and of the floors those that it does not have."""
        ruled = any(evaluator.backend == "heuristic" for evaluator in self.evaluators.values())
        return [*self.evaluators, *(FLOORS[1:] if ruled else FLOORS)]

    def settings_of(self, task: str) -> Task:
        """What `tasks` says of `task`."""
        return self.tasks.get(task, Task())

    def evaluator_of(self, task: str) -> tuple[str, Evaluator]:
        """The name and the settings of the evaluator that judges `task`."""
        own = self.settings_of(task).evaluator
        name = own or self.evaluator
        return name, self.evaluators[name]


def load_suite(file: str | os.PathLike[str] | None = None) -> Suite:
    """Read the suite from `file`, else from $GAVEL_SUITE, else from ./suite.yaml.

    Raises:
        SuiteError: the file is missing, is no YAML mapping, or a key is not accepted; one line a fault.
    """
    place = str(file or os.environ.get(SUITE_VARIABLE) or "suite.yaml")
    path = copy_of(place) if is_bucket(place) else Path(place).absolute()
    told = shown(path)
    if (bucket := bucket_of(path)) is not None:
        bucket.bring(path)
    try:
        settings = read_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SuiteError(
            f"{told}: cannot be read ({error.strerror}); "
            f"name a readable suite file in {SUITE_VARIABLE}, or put suite.yaml in this folder"
        ) from error
    except ValueError as error:
        raise SuiteError(f"{told}: is not valid YAML: {error}") from error
    if not isinstance(settings, dict):
        raise SuiteError(f"{told}: holds {kind_of(settings)}; accepted: settings, as `key: value`")
    try:
        suite = Suite.model_validate(settings)
    except ValidationError as error:
        raise SuiteError("\n".join(_sentence(told, fault) for fault in error.errors())) from error
    suite._file = path
    if suite.dataset is None and bucket_of(suite.path(suite.warehouse)) is not None:
        raise SuiteError(
            f"{told}: warehouse: {suite.warehouse!r} is in a bucket, where no database can work; accepted: the "
            "absolute path of a DuckDB file on this machine, or bigquery://project/dataset"
        )
    if suite.dialogue is not None and bucket_of(suite.path(suite.dialogue.corpus)) is not None:
        raise SuiteError(
            f"{told}: dialogue.corpus: {suite.dialogue.corpus!r} is in a bucket; the benchmark reads its "
            "files from this machine: give absolute paths, or leave the section out"
        )
    if suite.dataset is not None and suite.alignment.table is not None:
        raise SuiteError(
            f"{told}: alignment.table: {suite.alignment.table!r} is looked for in a DuckDB warehouse, and "
            f"the suite's is {suite.warehouse}; put the labels into the folder alignment.labels"
        )
    for folder in (suite.prompts, suite.alignment.labels):
        if (bucket := bucket_of(suite.path(folder))) is not None:
            bucket.bring_folder(suite.path(folder), deep=True)
    suite.task_names()
    return suite


def _sentence(path: str, fault: Any) -> str:
    """One pydantic fault as `file: key: what was found; what is accepted`."""
    key = ".".join(str(part) for part in fault["loc"]) or "(top level)"
    if fault["type"] == "missing":
        return f"{path}: {key}: is missing and has no default"
    if fault["type"] == "extra_forbidden":
        model = _model_at(fault["loc"][:-1])
        return f"{path}: {key}: is not a setting; accepted: {', '.join(model.model_fields)}"
    if fault["type"] == "value_error":
        return f"{path}: {key}: {fault['ctx']['error']}"
    return f"{path}: {key}: found {fault['input']!r}; {fault['msg']}"


def _model_at(location: tuple[int | str, ...]) -> type[BaseModel]:
    """The model of the section at `location`, of lists and mappings that of the entry named there."""
    model: type[BaseModel] = Suite
    parts = iter(location)
    for part in parts:
        annotation = model.model_fields[str(part)].annotation
        model = next(_models_in(annotation), model)
        if get_origin(annotation) in (list, dict):
            next(parts, None)
    return model


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that a type such as `dict[str, Task] | None` speaks of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)
