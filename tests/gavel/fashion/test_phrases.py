"""The phrasebook: what is said in English can be said in every language, and is understood there."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavel.errors import FashionError
from gavel.fashion.phrases import Phrasebook
from gavel.fashion.scripted import Scripts
from gavel.fashion.vocabulary import ATTRIBUTES, load_vocabulary

from .conftest import PROMPTS

SCRIPTS = Scripts(PROMPTS)
VOCABULARY = SCRIPTS.vocabulary
LANGUAGES = ("en", "de", "fr", "el")
WISHES = st.fixed_dictionaries(
    {}, optional={name: st.sampled_from(VOCABULARY.values[name]) for name in ATTRIBUTES}
).filter(bool)
KEYS = sorted(SCRIPTS.phrases._phrases)


@given(st.sampled_from(KEYS), st.integers(0, 2), WISHES, st.sampled_from(sorted(VOCABULARY.themes)))
def test_every_message_is_translated_and_understood(
    key: str, choice: int, wish: dict[str, str], theme: str
) -> None:
    choice %= SCRIPTS.phrases.choices(key)
    phrase = SCRIPTS.phrases._phrases[key][choice]["en"]
    english = SCRIPTS.phrases.say(key, "en", wish, theme, choice)
    for language in LANGUAGES:
        text = SCRIPTS.phrases.translate(english, language)
        assert text == SCRIPTS.phrases.say(key, language, wish, theme, choice)
        assert "{" not in text
        expected = wish if "{wish}" in phrase else {}
        if "{theme}" in phrase:
            found = VOCABULARY.theme_in(text, language)
            assert found is not None
            assert found.name == theme
        else:
            assert VOCABULARY.found(text, language) == expected


@pytest.mark.parametrize(
    "text", ["I want a purple hat", "need something nice", "need", "", "need black unicorn shoes"]
)
def test_what_is_no_phrase_is_not_guessed(text: str) -> None:
    assert SCRIPTS.phrases.translate(text, "de") is None


def test_the_words_of_a_language() -> None:
    wish = {"apparel": "hoodie", "material": "wool", "size": "small", "brand": "Levi's"}
    assert SCRIPTS.phrases.wish(wish, "en") == "wool Levi's hoodie in size small"
    assert SCRIPTS.phrases.wish(wish, "de") == "Kapuzenpullover, aus Wolle, von Levi's, Größe klein"
    assert VOCABULARY.found("schwarze Lederjacke, weiße Schuhe", "de") == {
        "colour": "white",
        "apparel": "shoes",
    }


def test_a_phrase_without_a_language_is_told(tmp_path: Path) -> None:
    (tmp_path / "phrases.yaml").write_text("wish: {}\ncustomer: {more: [{en: hi, de: hi, fr: hi}]}")
    with pytest.raises(FashionError, match=r"customer\.more: a phrase lacks el"):
        Phrasebook(tmp_path / "phrases.yaml", load_vocabulary(PROMPTS))
