"""Prompt templates: rendered in a sandbox, strict on undefined names, with customer text fenced off."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from gavel.errors import RubricError
from gavel.judge.rubric import Rubric


@dataclass(frozen=True, slots=True)
class Record:
    """What a template sees of a record; None where the log has nothing."""

    prompt: str
    response: str
    reference: str | None = None
    source_text: str | None = None
    language: str | None = None
    input_source: str | None = None
    out_of_coverage: bool | None = None
    tool_used: str | None = None
    agent_version: str | None = None
    retail_info: str | None = None
    extra: str | None = None


RECORD_COLUMNS = [field.name for field in fields(Record)]


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a verdict is invalid: one of the reason codes of `gavel.judge.verdicts`, and a detail."""

    code: str
    detail: str


_FULL: dict[str, Any] = dict.fromkeys(RECORD_COLUMNS, "text")


def fence(text: Any) -> str:
    """`text` as a JSON string that no customer can break out of: `<` is escaped, so no tag can close."""
    if isinstance(text, jinja2.Undefined):
        str(text)  # raises, naming the variable, which json.dumps would not
    return json.dumps(text, ensure_ascii=False).replace("<", "\\u003c")


class _Sandbox(ImmutableSandboxedEnvironment):
    """The sandbox, which need not weigh anew for every record that a record's own fields are safe."""

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if type(obj) is Record and attr in _FULL:
            return True
        return super().is_safe_attribute(obj, attr, value)


_ENVIRONMENT = _Sandbox(
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=False,
)
_ENVIRONMENT.filters["fence"] = fence


class Prompts:
    """The compiled templates of one rubric.

    `system` is the part that is the same for every record, byte for byte.

    Raises:
        RubricError: a template has a syntax error, lacks a block or names an undefined variable. All of it
            is tried out at once, on a record with every field and on one with none but the two texts.
    """

    def __init__(self, rubric: Rubric, origin: str) -> None:
        self._rubric = rubric
        self._origin = origin
        judge = self._template("judge.j2", ("system", "user"))
        repair = self._template("repair.j2", ("user",))
        self._judge, self._repair = judge.blocks["user"], repair.blocks["user"]
        # The context of each render is made anew, but the template's globals need not be.
        self._judge_context, self._repair_context = judge.new_context, repair.new_context
        self.system = self._rendered(
            "judge.j2", judge.blocks["system"], judge.new_context({"rubric": rubric})
        )
        for record in (Record("prompt", "response"), Record(**_FULL)):
            self.user(record)
        self.repair([Fault("wrong_type", "detail")])

    def check_fenced(self) -> None:
        """Check that whatever a customer or an agent wrote goes through the filter `fence`.

        Raises:
            RubricError: the template shows a field as it is, where it could pass for instructions.
        """
        shown = self.user(Record(**{name: f"<{name}>" for name in RECORD_COLUMNS}))  # type: ignore[arg-type]
        if bare := [name for name in RECORD_COLUMNS if f"<{name}>" in shown]:
            raise RubricError(
                f"{self._origin}/judge.j2: shows record.{bare[0]} as it is, so that a customer's words could "
                f"pass for instructions; accepted: {{{{ record.{bare[0]} | fence }}}}"
            )

    def user(self, record: Record) -> str:
        """The message that shows the evaluator one record."""
        return self._rendered("judge.j2", self._judge, self._judge_context({"record": record}))

    def repair(self, faults: Sequence[Fault]) -> str:
        """The message that tells the evaluator what was wrong with its answer."""
        values = {"faults": faults, "rubric": self._rubric}
        return self._rendered("repair.j2", self._repair, self._repair_context(values))

    def _template(self, name: str, blocks: Sequence[str]) -> jinja2.Template:
        return compiled(f"{self._origin}/{name}", self._rubric.files[name], blocks)

    def _rendered(self, name: str, block: Any, context: Any) -> str:
        return rendered(f"{self._origin}/{name}", block, context, _ACCEPTED)


_ACCEPTED = (
    "rubric in the system block, record."
    f"{{{', '.join(RECORD_COLUMNS)}}} in the user block, faults and rubric in repair.j2"
)


def compiled(place: str, text: str, blocks: Sequence[str]) -> jinja2.Template:
    """The template in `text`, which must have `blocks`; `place` names it in errors. Raises RubricError."""
    try:
        template = _ENVIRONMENT.from_string(text)
    except jinja2.TemplateSyntaxError as error:
        raise RubricError(f"{place}, line {error.lineno}: {error.message}") from error
    for block in blocks:
        if block not in template.blocks:
            raise RubricError(
                f"{place}: has no block {block!r}; accepted: a template with "
                + " and ".join(f"{{% block {name} %}}" for name in blocks)
            )
    return template


def rendered(place: str, block: Any, context: Any, accepted: str) -> str:
    """A block of a template in `context`; `accepted` says in an error what may be named. Raises RubricError."""
    try:
        return "".join(block(context)).strip()
    except jinja2.exceptions.SecurityError as error:
        raise RubricError(f"{place}: the sandbox refuses it: {error}") from error
    except jinja2.UndefinedError as error:
        raise RubricError(f"{place}: {error}; accepted: {accepted}") from error
    except (
        jinja2.TemplateError,
        TypeError,
        ValueError,
        ArithmeticError,
        LookupError,
        RecursionError,
    ) as error:
        raise RubricError(f"{place}: cannot be rendered: {error}") from error
