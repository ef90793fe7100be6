"""YAML as people write it, read strictly."""

from __future__ import annotations

from typing import Any

import yaml


class _UniqueKeys(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML that refuses a key given twice in one mapping, which the standard loader drops in silence."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
        seen = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(
                    problem="a mapping or list stands where a key is expected; text that starts "
                    "with { or [ needs quotes",
                    problem_mark=key_node.start_mark,
                )
            if key_node.value in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"{key_node.value!r} stands there more than once",
                    problem_mark=key_node.start_mark,
                )
            seen.add(key_node.value)
        return super().construct_mapping(node, deep)


def kind_of(value: Any) -> str:
    """What a person would call what a YAML document holds."""
    if value is None:
        return "nothing"
    return (
        "a list" if isinstance(value, list) else "text" if isinstance(value, str) else repr(value)
    )


def read_yaml(text: str) -> Any:
    """The content of a YAML document.

    Raises:
        ValueError: it is not valid YAML, holds no such date, or gives a key twice.
    """
    try:
        return yaml.load(text, _UniqueKeys)
    except yaml.YAMLError as error:
        # PyYAML calls a document that it was given as text by this name.
        told = " ".join(str(error).split()).replace(' in "<unicode string>",', "")
        raise ValueError(told) from error
