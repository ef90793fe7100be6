"""The prompts of simulated customers, assistants, translators and verifiers: templates of prompts/fashion."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gavel.errors import FashionError, RubricError
from gavel.inference.request import Message
from gavel.judge.prompts import Fault, compiled, rendered

LANGUAGES = {"en": "English", "de": "German", "fr": "French", "el": "Greek"}

_BLOCKS = {
    "customer": ("system", "open", "turn"),
    "assistant": ("system", "turn"),
    "query": ("system", "conversation"),
    "translate": ("system", "message"),
    "verify": ("system", "conversation"),
    "repair": ("user",),
}
_LONGEST_REPAIRED = 2_000
"""Characters of an invalid reply that its author is shown again."""

_GOALS = [
    SimpleNamespace(id="e1", kind=kind, text="text", personality=personality)
    for kind in ("item", "theme")
    for personality in (None, "casual", "indecisive", "rude")
]
_TURNS = [
    SimpleNamespace(customer="text", action=action, text=text, queries=["text"], items="text")
    for action, text in (("search", ""), ("message", "text"), (None, ""))
]
_VARIANTS = ("I", "II", "III")
_TRIED: list[tuple[str, str, dict[str, Any]]] = [
    *(("customer", "system", {"goal": goal, "language": "text"}) for goal in _GOALS),
    ("customer", "open", {}),
    *(("customer", "turn", {"turn": turn}) for turn in _TURNS),
    *(("assistant", "system", {"variant": v, "language": "text"}) for v in _VARIANTS),
    *(("assistant", "turn", {"shown": shown, "customer": "text"}) for shown in (None, "text")),
    *(("query", "system", {"variant": variant}) for variant in _VARIANTS),
    ("query", "conversation", {"turns": _TURNS}),
    ("translate", "system", {"language": "text"}),
    ("translate", "message", {"speaker": "customer", "text": "text"}),
    ("verify", "system", {}),
    *(
        ("verify", "conversation", {"goal": goal, "turns": _TURNS, "outcome": "text"})
        for goal in _GOALS
    ),
    ("repair", "user", {"faults": [Fault("code", "detail"), Fault("code", "")]}),
]
"""What every block is tried out with, so that a name nobody sets is told before anything is asked."""


class FashionPrompts:
    """The compiled templates in `folder`; rendered in the sandbox, with what is quoted fenced off.

    Raises:
        FashionError: a file is missing, or a template is wrong: file, line and name are told.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._templates = {}
        for name, blocks in _BLOCKS.items():
            path = folder / f"{name}.j2"
            try:
                text = path.read_text(encoding="utf-8")
                self._templates[name] = compiled(str(path), text, blocks)
            except OSError as error:
                raise FashionError(f"{path}: cannot be read ({error.strerror})") from error
            except RubricError as error:
                raise FashionError(str(error)) from error
        for name, block, values in _TRIED:
            self.render(name, block, **values)

    def render(self, name: str, block: str, **values: Any) -> str:
        """`block` of the template `name` with `values`."""
        template = self._templates[name]
        try:
            return rendered(
                f"{self._folder / name}.j2",
                template.blocks[block],
                template.new_context(values),
                ", ".join(values),
            )
        except RubricError as error:
            raise FashionError(str(error)) from error

    def repaired(
        self, messages: Sequence[Message], reply: str | None, faults: Sequence[Fault]
    ) -> tuple[Message, ...]:
        """`messages`, then the reply that cannot be used and what is wrong with it, if there was any reply."""
        if not reply or not reply.strip():
            return tuple(messages)
        return (
            *messages,
            Message("assistant", reply[:_LONGEST_REPAIRED]),
            Message("user", self.render("repair", "user", faults=faults)),
        )


def schema_of(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """A strict JSON Schema of an object with exactly these properties."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def files_hash(folder: Path) -> str:
    """12 hex digits that change with any file of the prompts, the vocabulary or the phrases."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*")):
        if path.is_file():
            content = path.read_bytes()
            digest.update(f"{path.name} {len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()[:12]
