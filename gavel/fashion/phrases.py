"""The phrasebook: what scripted customers and assistants say, in every language, and its translation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gavel.errors import FashionError
from gavel.fashion.vocabulary import ENGLISH, Vocabulary, read_mapping
from gavel.settings.fashion import FASHION_LANGUAGES
from gavel.text.words import plain

Phrase = Mapping[str, str]
"""One phrase in every language."""

_SLOTS = ("wish", "theme")
_FILLERS = frozenset({"in", "size"})
"""The words of an English wish besides its values."""


class Phrasebook:
    """The content of phrases.yaml.

    Raises:
        FashionError: the file is missing or malformed, or a phrase lacks a language.
    """

    def __init__(self, path: Path, vocabulary: Vocabulary) -> None:
        content = read_mapping(path)
        self._path, self._vocabulary = path, vocabulary
        try:
            self._wish = content["wish"]
            self._phrases: dict[str, list[Phrase]] = dict(_flat((), content))
        except (KeyError, TypeError, AttributeError) as error:
            raise FashionError(f"{path}: {error!r} is missing or has another form") from error
        for key, phrases in self._phrases.items():
            for phrase in phrases:
                if missing := set(FASHION_LANGUAGES) - set(phrase):
                    raise FashionError(
                        f"{path}: {key}: a phrase lacks {', '.join(sorted(missing))}"
                    )
        self._patterns = sorted(
            ((self._pattern(p[ENGLISH]), p) for ps in self._phrases.values() for p in ps),
            key=lambda pair: -len(pair[1][ENGLISH]),
        )

    def choices(self, key: str) -> int:
        """How many phrasings there are of `key`, such as `customer.rude.more`."""
        return len(self._phrases[key])

    def say(
        self,
        key: str,
        language: str,
        wish: Mapping[str, str] | None = None,
        theme: str | None = None,
        choice: int = 0,
    ) -> str:
        """The phrase `key` in `language`, with a wish (English values by attribute) or a theme's name."""
        return self._filled(self._phrases[key][choice], language, wish, theme)

    def translate(self, text: str, language: str) -> str | None:
        """An English message of the phrasebook in `language`; None where it is none of its phrases."""
        for pattern, phrase in self._patterns:
            match = pattern.fullmatch(plain(text))
            if match is None:
                continue
            slots = match.groupdict()
            wish = theme = None
            if "wish" in slots:
                wish = self._vocabulary.found(slots["wish"], ENGLISH)
                rest = self._vocabulary.without_values(slots["wish"]).split()
                if not wish or not _FILLERS.issuperset(rest):
                    continue
            if "theme" in slots:
                found = self._vocabulary.theme_in(slots["theme"], ENGLISH)
                if found is None:
                    continue
                theme = found.name
            return self._filled(phrase, language, wish, theme)
        return None

    def wish(self, properties: Mapping[str, str], language: str) -> str:
        """Properties as a customer names them in `language`."""
        form = self._wish[language]
        return str(form["join"]).join(
            part.replace("{}", self._vocabulary.word(properties[name], language))
            for name, part in form["parts"].items()
            if name in properties
        )

    def _filled(
        self, phrase: Phrase, language: str, wish: Mapping[str, str] | None, theme: str | None
    ) -> str:
        text = phrase[language]
        if wish is not None:
            text = text.replace("{wish}", self.wish(wish, language))
        if theme is not None:
            text = text.replace("{theme}", self._vocabulary.themes[theme].names[language])
        return text

    @staticmethod
    def _pattern(text: str) -> re.Pattern[str]:
        pattern = re.escape(plain(text))
        for slot in _SLOTS:
            pattern = pattern.replace(re.escape(f"{{{slot}}}"), f"(?P<{slot}>.+)")
        return re.compile(pattern)


def _flat(
    path: tuple[str, ...], content: Mapping[str, object]
) -> Iterator[tuple[str, list[Phrase]]]:
    """Every list of phrases by its dotted path."""
    for name, value in content.items():
        if path == () and name == "wish":
            continue
        if isinstance(value, Mapping):
            yield from _flat((*path, name), value)
        elif isinstance(value, Sequence) and not isinstance(value, str):
            yield ".".join((*path, name)), list(value)
        else:
            raise TypeError(".".join((*path, name)))
