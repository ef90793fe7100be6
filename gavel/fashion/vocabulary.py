"""The vocabulary of goals: attributes with their values and words, spellings that are equal, themes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gavel.documents import read_yaml
from gavel.errors import FashionError
from gavel.text.words import plain, whole_word

ENGLISH = "en"
ATTRIBUTES = ("colour", "type", "material", "fit", "brand", "apparel", "size")
"""The attributes of an item goal, in the order in which its text names them."""


@dataclass(frozen=True)
class Theme:
    """An open goal: what queries are compared with, and what a customer calls it, by language."""

    name: str
    description: str
    names: Mapping[str, str]


class Vocabulary:
    """The content of vocabulary.yaml.

    Raises:
        FashionError: the file is missing or malformed, or a value is one of two attributes.
    """

    def __init__(self, path: Path) -> None:
        content = read_mapping(path)
        try:
            given: Mapping[str, Mapping[str, Any]] = content["attributes"]
            if missing := set(ATTRIBUTES) ^ set(given):
                raise FashionError(
                    f"{path}: attributes: {', '.join(sorted(missing))} is missing or unknown; "
                    f"accepted: exactly {', '.join(ATTRIBUTES)}"
                )
            self.values: dict[str, tuple[str, ...]] = {a: tuple(given[a]) for a in ATTRIBUTES}
            self._words = {
                value: {language: list(words) for language, words in (others or {}).items()}
                for values in given.values()
                for value, others in values.items()
            }
            self.themes = {
                name: Theme(name, texts["description"], dict(texts))
                for name, texts in content["themes"].items()
            }
            self.development: dict[str, list[str]] = content["development"]
            self.popular: dict[str, str] = content["popular"]
            equal: Sequence[Sequence[str]] = content["equivalent"]
        except (KeyError, TypeError, AttributeError) as error:
            raise FashionError(f"{path}: {error!r} is missing or has another form") from error
        self.attribute_of = {v: a for a, values in self.values.items() for v in values}
        if len(self.attribute_of) < sum(map(len, self.values.values())):
            raise FashionError(f"{path}: attributes: a value stands under two attributes")
        self._equal = {value: list(group) for group in equal for value in group}
        self._readers: dict[str, tuple[re.Pattern[str], list[tuple[re.Pattern[str], str]]]] = {}

    def word(self, value: str, language: str) -> str:
        """How `value` is written in `language`; a name stays what it is."""
        return str(self._words[value].get(language, [value])[0]).rstrip("*")

    def words(self, value: str, language: str) -> list[str]:
        """All that `value` is recognised by in `language`, the English value itself included."""
        return [value, *self._words[value].get(language, [])]

    def equivalents(self, value: str) -> list[str]:
        """The spellings that mean the same as `value`, itself included."""
        return self._equal.get(value, [value])

    def found(self, text: str, language: str) -> dict[str, str]:
        """The attributes named in `text` with their English values; of two values the later one."""
        values = self.mentions(text, language)
        return {self.attribute_of[value]: value for value in values}

    def mentions(self, text: str, language: str) -> list[str]:
        """The English values named in `text`, in their order; a word counts for its longest reading."""
        pattern, readers = self._reader(language)
        return [
            next(value for reader, value in readers if reader.fullmatch(match.group()))
            for match in pattern.finditer(plain(text))
        ]

    def without_values(self, text: str) -> str:
        """What is left of an English `text`, in the plain form, without the values it names."""
        pattern, _ = self._reader(ENGLISH)
        return " ".join(pattern.sub(" ", plain(text)).split())

    def theme_in(self, text: str, language: str) -> Theme | None:
        """The theme that `text` calls by its name in `language`."""
        told = plain(text)
        return next((t for t in self.themes.values() if plain(t.names[language]) in told), None)

    def _reader(self, language: str) -> tuple[re.Pattern[str], list[tuple[re.Pattern[str], str]]]:
        if language not in self._readers:
            words = {value: self.words(value, language) for value in self.attribute_of}
            every = [word for found in words.values() for word in found]
            # A whole word of one value may fit the ending of another: the longest spelling decides.
            single = sorted(
                ((word, value) for value, found in words.items() for word in found),
                key=lambda pair: -len(pair[0]),
            )
            readers = [(whole_word([word]), value) for word, value in single]
            self._readers[language] = whole_word(every), readers
        return self._readers[language]


@cache
def _vocabulary(path: Path, modified: int) -> Vocabulary:
    return Vocabulary(path)


def load_vocabulary(folder: Path) -> Vocabulary:
    """The vocabulary in `folder`, read once as long as the file does not change. Raises FashionError."""
    path = folder / "vocabulary.yaml"
    try:
        modified = path.stat().st_mtime_ns
    except OSError as error:
        raise FashionError(f"{path}: cannot be read ({error.strerror})") from error
    return _vocabulary(path, modified)


def read_mapping(path: Path) -> dict[str, Any]:
    """The YAML mapping in `path`. Raises FashionError."""
    try:
        content = read_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FashionError(f"{path}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise FashionError(f"{path}: is not valid YAML: {error}") from error
    if not isinstance(content, dict):
        raise FashionError(f"{path}: holds {type(content).__name__}, not a mapping")
    return content
