"""What a task asks: dimensions, labels and prompt templates, read from a folder under `prompts/`.

One rubric compiles to three views: the JSON Schema sent to the evaluator (here), the Arrow schema of the
verdict file and the pandera schema of its check (`gavel.judge.tables`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gavel.documents import kind_of, read_yaml
from gavel.errors import RubricError

FILES = ("rubric.yaml", "labels.yaml", "judge.j2", "repair.j2")
"""The files of a task's folder; labels.yaml may be absent where a task has no labels."""

_COLUMNS = """
row_id source record_id user_id conversation_id context_id start_time end_time created_date task prompt
response reference source_text language input_source out_of_coverage tool_used agent_version retail_info
extra source_file source_line shard shard_row rationale confidence field_confidence status faults
fault_detail raw_response mended evaluator model model_revision prompt_version rubric_hash config_hash
request_hash worker run_id attempt reused retries finish_reason prompt_tokens completion_tokens cost_usd latency_ms
evaluated_at score score_normalised attempts regenerated day filename file_row_number tier
escalated votes disagreement because
"""
RESERVED = frozenset(_COLUMNS.split())
"""Names that dimensions and labels cannot have: columns of the tables they become columns of."""


Parsed = TypeVar("Parsed", bound=BaseModel)


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Dimension(_Model):
    """A numeric, bounded quality; `optional` lets the evaluator answer null where it cannot apply."""

    name: str
    type: Literal["integer", "number"] = "integer"
    min: int | float = Field(allow_inf_nan=False)
    max: int | float = Field(allow_inf_nan=False)
    weight: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    optional: bool = False
    description: str

    @model_validator(mode="after")
    def _bounds_make_a_range(self) -> Dimension:
        if not self.min < self.max:
            raise ValueError(f"min {self.min:g} is not below max {self.max:g}")
        if self.type == "integer" and not (self.min == int(self.min) and self.max == int(self.max)):
            raise ValueError(
                f"min {self.min:g} and max {self.max:g} of an integer are whole numbers; "
                "type: number takes others"
            )
        return self


class LabelValue(_Model):
    """One value of a label; `values` are those of the label nested under it."""

    name: str
    description: str = ""
    keywords: tuple[str, ...] = ()
    values: tuple[LabelValue, ...] = ()


class Label(_Model):
    """A closed set of values; `nested` names the label whose values stand under these."""

    name: str
    description: str = ""
    nested: str | None = None
    values: tuple[LabelValue, ...] = Field(min_length=1)

    @cached_property
    def parents(self) -> Mapping[str, str]:
        """The value above each nested value."""
        return {child.name: value.name for value in self.values for child in value.values}


class _RubricFile(_Model):
    """rubric.yaml."""

    task: str
    version: int = Field(ge=1)
    description: str
    rationale: bool = True
    dimensions: dict[str, dict[str, Any]] = Field(min_length=1)


@dataclass(frozen=True)
class Rubric:
    """A task's rubric; `files` are the texts it was read from and `hash` is theirs."""

    task: str
    version: int
    description: str
    rationale: bool
    dimensions: tuple[Dimension, ...]
    labels: tuple[Label, ...]
    files: Mapping[str, str]

    @cached_property
    def hash(self) -> str:
        """32 hex digits that change with any byte of any file."""
        return _hash("\x1e".join(f"{n}\x1f{self.files[n]}" for n in sorted(self.files)))

    @property
    def stamp(self) -> str:
        """Task, version and hash: which rubric it is."""
        return f"{self.task} {self.version} {self.hash}"

    @cached_property
    def file_hashes(self) -> dict[str, str]:
        """The hash of each file, to tell which one drifted."""
        return {name: _hash(text) for name, text in sorted(self.files.items())}

    @cached_property
    def label_values(self) -> dict[str, tuple[str, ...]]:
        """The accepted values of every label column, nested ones included, in the order written."""
        columns: dict[str, tuple[str, ...]] = {}
        for label in self.labels:
            columns[label.name] = tuple(value.name for value in label.values)
            if label.nested is not None:
                columns[label.nested] = tuple(label.parents)
        return columns

    @cached_property
    def accepted(self) -> dict[str, frozenset[str]]:
        """`label_values` for quick membership."""
        return {name: frozenset(values) for name, values in self.label_values.items()}

    @property
    def columns(self) -> list[str]:
        """The verdict columns of this rubric: dimensions, then labels."""
        return [d.name for d in self.dimensions] + list(self.label_values)

    @cached_property
    def meanings(self) -> dict[str, str]:
        """What each column of this rubric means."""
        meanings = {dimension.name: dimension.description for dimension in self.dimensions}
        for label in self.labels:
            meanings[label.name] = label.description
            if label.nested is not None:
                meanings[label.nested] = (
                    f"{label.description}, more closely: nested under {label.name}"
                )
        return meanings

    def response_schema(self) -> dict[str, Any]:
        """The JSON Schema of an answer. The rationale stands first: scores then follow from it."""
        properties: dict[str, Any] = {}
        if self.rationale:
            properties["rationale"] = {"type": "string"}
        for dimension in self.dimensions:
            whole = dimension.type == "integer"
            low, high = (int(bound) if whole else bound for bound in (dimension.min, dimension.max))
            kind: Any = [dimension.type, "null"] if dimension.optional else dimension.type
            properties[dimension.name] = {"type": kind, "minimum": low, "maximum": high}
        for name, values in self.label_values.items():
            properties[name] = {"type": "string", "enum": list(values)}
        properties["confidence"] = {"type": "number", "minimum": 0, "maximum": 1}
        return {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }


def load_rubric(folder: Path) -> Rubric:
    """Read the rubric of the task whose files stand in `folder`.

    Raises:
        RubricError: a file is missing or wrong; the sentence names file and key.
    """
    files = {}
    for name in FILES:
        path = folder / name
        if not path.exists():
            if name == "labels.yaml":
                continue
            raise RubricError(f"{path} is missing; a task's folder holds {', '.join(FILES)}")
        try:
            files[name] = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise RubricError(f"{path}: cannot be read as UTF-8 text ({error})") from error
    return compile_rubric(folder.name, files, str(folder))


def compile_rubric(task: str, files: Mapping[str, str], origin: str) -> Rubric:
    """The rubric of `task` from the texts of its files; `origin` is the folder that errors name.

    Raises:
        RubricError: a file is wrong; the sentence names file, key, what was found and what is accepted.
    """
    file = f"{origin}/rubric.yaml"
    settings = _parsed(_RubricFile, file, "", _yaml(file, files["rubric.yaml"]))
    if settings.task != task:
        raise RubricError(
            f"{file}: task: found {settings.task!r}; it is the folder's name, {task!r}"
        )
    dimensions = tuple(
        _parsed(Dimension, file, f"dimensions.{name}", {**fields, "name": name})
        for name, fields in settings.dimensions.items()
    )
    file = f"{origin}/labels.yaml"
    labels = tuple(
        _parsed(Label, file, name, {**_label(fields), "name": name})
        for name, fields in _yaml(file, files.get("labels.yaml", "{}")).items()
    )
    _check_labels(file, labels)
    rubric = Rubric(
        task,
        settings.version,
        settings.description,
        settings.rationale,
        dimensions,
        labels,
        dict(files),
    )
    _check_names(origin, rubric)
    return rubric


def _check_labels(file: str, labels: Sequence[Label]) -> None:
    for label in labels:
        nested = any(value.values for value in label.values)
        if nested != (label.nested is not None):
            raise RubricError(
                f"{file}: {label.name}: nested names the label whose values stand under these; "
                f"found nested: {label.nested!r} and {'some' if nested else 'no'} values under them"
            )
        if empty := [value.name for value in label.values if nested and not value.values]:
            raise RubricError(
                f"{file}: {label.name}.{empty[0]}: has no values of {label.nested}; "
                "each value needs at least one, or no answer with it can be valid"
            )
        if deeper := [c.name for v in label.values for c in v.values if c.values]:
            raise RubricError(
                f"{file}: {label.nested}.{deeper[0]}: has values of its own; "
                "accepted: labels nested once"
            )
        for name, values in (
            (label.name, [value.name for value in label.values]),
            (label.nested, [child.name for value in label.values for child in value.values]),
        ):
            if repeated := sorted({v for v in values if values.count(v) > 1}):
                raise RubricError(
                    f"{file}: {name}: {', '.join(repeated)} stands there more than once; "
                    "each value of a label is unique, also under different parents"
                )


def _check_names(origin: str, rubric: Rubric) -> None:
    if not any(dimension.weight for dimension in rubric.dimensions):
        raise RubricError(
            f"{origin}/rubric.yaml: dimensions: every weight is 0, so no record could have a score; "
            "at least one is above 0"
        )
    # Not rubric.columns, where two labels of one name are one.
    labels = [name for label in rubric.labels for name in (label.name, label.nested) if name]
    names = [dimension.name for dimension in rubric.dimensions] + labels
    for name in names:
        if not name.isidentifier() or name != name.lower():
            raise RubricError(
                f"{origin}: {name!r} cannot name a dimension or label; accepted: lower-case letters, "
                "digits and _"
            )
        if name in RESERVED:
            raise RubricError(
                f"{origin}: {name!r} cannot name a dimension or label, since every table of scores has "
                "a column of that name; accepted: a name that is none of "
                + ", ".join(sorted(RESERVED))
            )
        if names.count(name) > 1:
            raise RubricError(
                f"{origin}: {name} names two dimensions or labels; each needs its own name"
            )


def _label(fields: Any) -> dict[str, Any]:
    """labels.yaml keeps values as mappings by name; the models keep them as sequences."""
    if not isinstance(fields, dict):
        return {"values": fields}
    values = fields.get("values")
    if isinstance(values, dict):
        values = [{**_label(own or {}), "name": name} for name, own in values.items()]
        return {**fields, "values": values}
    return fields


def _yaml(file: str, text: str) -> dict[str, Any]:
    try:
        parsed = read_yaml(text)
    except ValueError as error:
        raise RubricError(f"{file}: is not valid YAML: {error}") from error
    if not isinstance(parsed, dict):
        raise RubricError(f"{file}: holds {kind_of(parsed)}; accepted: settings, as `key: value`")
    return parsed


def _parsed(model: type[Parsed], file: str, key: str, fields: Any) -> Parsed:
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join([key, *map(str, fault["loc"])]).strip(".")
        whole = fault["type"] in ("missing", "value_error") and isinstance(fault["input"], dict)
        found = "" if whole else f"found {fault['input']!r}; "
        raise RubricError(f"{file}: {where}: {found}{fault['msg']}") from error


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
