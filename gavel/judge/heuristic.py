"""The rule-based baseline: weak supervision from what can be counted in the text, and no model.

It is a floor to compare evaluators with and a stand-in that needs no network, never a judgement. Each
signal is in [0, 1]; each dimension is what its signals say together, laid on its range. Labels are found by their
keywords.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from statistics import fmean

from gavel.inference.request import Request
from gavel.judge.prompts import Record
from gavel.judge.rubric import Label, LabelValue, Rubric

REVISION = "heuristic-1"
"""Changes whenever a rule does: answers of another revision are not reused."""

_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_TOKEN = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_SENTENCE = re.compile(r"[.!?]+(?:\s|$)")

_STOPWORDS = {
    "en": "the a an and or of to in is are it for on with you your i we this that can be have do not at as my",
    "de": "der die das und oder zu in ist sind es für auf mit sie ihr ich wir ein eine nicht den dem im kann",
    "fr": "le la les et ou de des à en est sont il pour sur avec vous votre je nous un une ne pas dans du que",
    "es": "el la los las y o de en es son para con usted su yo un una no que por del al se puede más lo",
}
_FUNCTION_WORDS = {language: frozenset(words.split()) for language, words in _STOPWORDS.items()}
_ALL_FUNCTION_WORDS = frozenset().union(*_FUNCTION_WORDS.values())

_REFUSING = re.compile(
    r"\b(can(?:no|')t help|cannot (?:help|answer|assist|translate)|unable to|not able to|don['’]?t know|no idea|"
    r"kann (?:ich )?(?:leider )?nicht|weiß (?:ich )?nicht|nicht möglich|leider nicht|je ne (?:peux|sais) pas|"
    r"impossible de|no puedo|no sé|no es posible)",
    re.IGNORECASE,
)
_POLITE = re.compile(
    r"\b(please|thank|glad|happy to|welcome|sorry|gladly|enjoy|bitte|dank|gerne?|freu|entschuldig|viel spaß|"
    r"merci|s['’]il vous|volontiers|avec plaisir|désolé|bonne|bon |gracias|por favor|encantad|con gusto|"
    r"disculp|perdón|suerte)",
    re.IGNORECASE,
)
_RUDE = re.compile(
    r"\b(stupid|obviously|whatever|figure it out|not my problem|read the manual|deal with it|duh|"
    r"nicht mein problem|selbst schuld|lesen sie doch|débrouillez|pas mon problème|évidemment|"
    r"no es mi problema|búsquese|obvio)",
    re.IGNORECASE,
)
_HEDGED = re.compile(
    r"\b(maybe|perhaps|probably|might|somehow|guess|vielleicht|wohl|irgendwie|peut-être|sans doute|"
    r"quizás?|a lo mejor)\b",
    re.IGNORECASE,
)
_ABSOLUTE = re.compile(
    r"\b(guaranteed?|always|never|100 ?%|absolutely|no doubt|garantiert|immer|niemals|garanti|jamais|toujours|"
    r"garantizad[oa]|siempre|nunca)\b",
    re.IGNORECASE,
)
_SELLING = re.compile(
    r"\b(perfect|ideal|comfort|easy|quality|robust|durable|style|perfekt|ideal|bequem|leicht|qualität|langlebig|"
    r"parfait|idéal|confort|facile|qualité|résistant|perfect[oa]|cómod|fácil|calidad|resistente)",
    re.IGNORECASE,
)


def judge_by_rule(request: Request) -> str:
    """The baseline's answer, as JSON text; `request.subject` is the rubric and the record."""
    rubric, record = request.subject
    if PREFERENCE in rubric.label_values:
        return _preferred(rubric, record)
    signals = _translation_signals(record) if record.source_text else _chat_signals(record)
    overall = fmean(signals.values())
    answer: dict[str, object] = {}
    if rubric.rationale:
        weakest = min(signals, key=lambda name: signals[name])
        answer["rationale"] = (
            f"Rule-based baseline; weakest signal: {weakest} {signals[weakest]:.2f}."
        )
    for dimension in rubric.dimensions:
        parts = [signals[name] for name in _EVIDENCE.get(dimension.name, ()) if name in signals]
        # Good evidence does not make up for bad: half the mean, half the weakest.
        share = (fmean(parts) + min(parts)) / 2 if parts else overall
        value = dimension.min + share * (dimension.max - dimension.min)
        whole = dimension.type == "integer"
        rounded = round(value) if whole else round(value, 2)
        answer[dimension.name] = min(dimension.max, max(dimension.min, rounded))
    for label in rubric.labels:
        answer.update(_label(label, record, overall))
    answer["confidence"] = 0.3
    return json.dumps(answer, ensure_ascii=False)


PREFERENCE = "preference"
"""The label that makes a rubric one of two answers: the record's response, and its reference."""

_LEAST_MARGIN = 0.02
"""What the mean signals of two answers differ by at least, where they are no tie."""


def _preferred(rubric: Rubric, record: Record) -> str:
    """Which of two answers has more signals in its favour, as JSON text."""
    first, second = (
        fmean(_chat_signals(replace(record, response=text or "", reference=None)).values())
        for text in (record.response, record.reference)
    )
    margin = abs(first - second)
    answer: dict[str, object] = {}
    if rubric.rationale:
        answer["rationale"] = f"Rule-based baseline; signals {first:.2f} and {second:.2f}."
    for dimension in rubric.dimensions:
        value = dimension.min + margin * (dimension.max - dimension.min)
        answer[dimension.name] = round(value) if dimension.type == "integer" else round(value, 2)
    tie = margin < _LEAST_MARGIN
    answer[PREFERENCE] = "tie" if tie else "first" if first > second else "second"
    answer["confidence"] = 0.3
    return json.dumps(answer, ensure_ascii=False)


_EVIDENCE: Mapping[str, Sequence[str]] = {
    "helpfulness": ("overlap", "answers", "substance"),
    "clarity": ("language", "sentences", "sound"),
    "coherence": ("overlap", "language", "sound"),
    "conciseness": ("length", "sound"),
    "creativity": ("variety", "substance"),
    "instruction_adherence": ("overlap", "answers", "language"),
    "tone_alignment": ("politeness", "civility"),
    "truthfulness": ("grounded", "measured", "answers"),
    "semantic_accuracy": ("numbers", "proportion", "reference", "answers"),
    "cultural_appropriateness": ("language", "civility"),
    "readability": ("sentences", "language", "sound"),
    "selling_relevance": ("selling", "proportion"),
    "template_fit": ("proportion", "punctuation", "numbers"),
}
"""Which signals speak for a dimension; one not named here gets the mean of all."""


def _chat_signals(record: Record) -> dict[str, float]:
    prompt, response = _words(record.prompt), _words(record.response)
    asked = set(prompt) - _ALL_FUNCTION_WORDS
    said = set(response) - _ALL_FUNCTION_WORDS
    signals = {
        "overlap": _capped(_share(asked, said) * 2.5),
        "substance": _capped(len(said) / 18),
        "length": _band(len(response), 8, 60),
        "grounded": _grounded(record),
        "measured": _capped(
            1 - 0.3 * _hits(_HEDGED, record.response) - 0.3 * _hits(_ABSOLUTE, record.response)
        ),
        **_writing_signals(record.response, response, record.language),
    }
    if record.reference:
        signals["overlap"] = max(
            signals["overlap"], _share(set(_words(record.reference)), set(response))
        )
    return signals


def _translation_signals(record: Record) -> dict[str, float]:
    source_text = record.source_text or ""
    source, target = _words(source_text), _words(record.response)
    signals = {
        "proportion": _band(len(record.response) / max(len(source_text), 1), 0.8, 1.6),
        "numbers": _share(set(_NUMBER.findall(source_text)), set(_NUMBER.findall(record.response))),
        "punctuation": 1.0 if source_text[-1:] == record.response.rstrip()[-1:] else 0.5,
        "selling": _capped(0.4 + 0.3 * _hits(_SELLING, record.response)),
        "translated": 1.0 - _share(set(source) - _ALL_FUNCTION_WORDS, set(target)),
        **_writing_signals(record.response, target, record.language),
    }
    if record.reference:
        signals["reference"] = _share(set(_words(record.reference)), set(target))
    return signals


def _writing_signals(text: str, words: Sequence[str], language: str | None) -> dict[str, float]:
    """What any text shows of itself."""
    sentences = max(1, len(_SENTENCE.findall(text)))
    letters = [character for character in text if character.isalpha()]
    shouting = sum(character.isupper() for character in letters) / max(len(letters), 1)
    return {
        "answers": 0.0 if _REFUSING.search(text) else 1.0,
        "language": _in_language(words, language),
        "sentences": _band(len(words) / sentences, 5, 24),
        "sound": 1.0 if shouting < 0.3 and "!!" not in text and "??" not in text else 0.3,
        "variety": _capped(len(set(words)) / max(len(words), 1)) if len(words) > 5 else 0.3,
        "politeness": _capped(0.35 + 0.35 * _hits(_POLITE, text)),
        "civility": 0.0 if _RUDE.search(text) else 1.0,
    }


def _label(label: Label, record: Record, overall: float) -> dict[str, str]:
    """The value with most keywords in the customer's words; the last one, the fallback, if none has any."""
    if label.name == "acceptability":
        return {label.name: label.values[0 if overall >= 0.7 else -1].name}
    asked = _spaced(record.prompt)
    points = [
        2 * _mentions(v, asked) + sum(_mentions(c, asked) for c in v.values) for v in label.values
    ]
    best = max(points)
    value = label.values[points.index(best)] if best else label.values[-1]
    found = {label.name: value.name}
    if label.nested is not None:
        about = asked + _spaced(record.response)
        found[label.nested] = max(value.values, key=lambda child: _mentions(child, about)).name
    return found


def _mentions(value: LabelValue, spaced: str) -> int:
    return sum(keyword in spaced for keyword in _word_starts(value.keywords))


@lru_cache(maxsize=4096)
def _word_starts(keywords: tuple[str, ...]) -> tuple[str, ...]:
    """Each keyword as it starts a word in spaced text; it may end inside one, so inflected forms are found."""
    return tuple(_spaced(keyword).rstrip() for keyword in keywords)


def _spaced(text: str) -> str:
    """`text` in lower case with one space before and after each word and nothing else between."""
    return " " + " ".join(_TOKEN.findall(text.lower())) + " "


def _grounded(record: Record) -> float:
    """The share of the response's numbers that the record itself gives; with none, nothing is claimed."""
    claimed = set(_NUMBER.findall(record.response))
    known = " ".join(filter(None, (record.prompt, record.reference, record.retail_info)))
    return 0.4 + 0.6 * _share(claimed, set(_NUMBER.findall(known)))


def _in_language(words: Sequence[str], language: str | None) -> float:
    """1 where function words of the language outnumber every other known language's; 0.2 where another's do."""
    own = _FUNCTION_WORDS.get((language or "")[:2].lower())
    if own is None or len(words) < 4:
        return 0.8
    counts = {name: sum(word in known for word in words) for name, known in _FUNCTION_WORDS.items()}
    best = max(counts.values())
    return 1.0 if best == sum(word in own for word in words) else 0.2


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _share(wanted: set[str], found: set[str]) -> float:
    """The share of `wanted` that is in `found`; 1 where nothing is wanted."""
    return len(wanted & found) / len(wanted) if wanted else 1.0


def _hits(pattern: re.Pattern[str], text: str) -> int:
    return len(pattern.findall(text))


def _capped(value: float) -> float:
    return min(1.0, max(0.0, value))


def _band(value: float, low: float, high: float) -> float:
    """1 within [low, high], falling to 0 at nothing and at twice the upper end."""
    if value < low:
        return value / low
    return 1.0 if value <= high else _capped(2 - value / high)
