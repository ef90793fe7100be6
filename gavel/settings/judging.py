"""Who judges a task: evaluators, panels of them, and a larger one for some records."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, PlainValidator, model_validator

from gavel.settings.section import Section


class Prices(Section):
    """List prices in US dollars a million tokens, or the price of the evaluator's own machine an hour."""

    prompt: float = Field(default=0.0, ge=0)
    completion: float = Field(default=0.0, ge=0)
    hour: float | None = Field(default=None, gt=0)


class Evaluator(Section):
    """The judge: a backend with its endpoint and decoding settings.

    Of backend `vllm_offline`, `model` is loaded in this process, with `quantization` (such as awq, gptq,
    bitsandbytes) and `engine`, further arguments of vLLM's LLM such as max_model_len.

    Times are in seconds. `breaker_share` of `breaker_window` tries failing in transport is an outage.
    `confidence` is what the model says itself (`stated`), the probability of what it wrote (`logprobs`, where the
    server gives it), or how many of `samples` answers agree (`sampled`: so many times the requests).
    """

    backend: Literal["heuristic", "openai_compatible", "vllm_offline"]
    model: str = "heuristic-1"
    base_url: str | None = None
    api_key_env: str = "OPENAI_API_KEY"
    structured_output: Literal["auto", "json_schema", "json_object", "none"] = "auto"
    temperature: float = Field(default=0.005, ge=0, le=2)
    seed: int | None = 7
    max_tokens: int = Field(default=1024, ge=1)
    extra_body: dict[str, Any] = {}
    confidence: Literal["stated", "logprobs", "sampled"] = "stated"
    samples: int = Field(default=5, ge=2, le=20)
    timeout: float = Field(default=60.0, gt=0)
    retries: int = Field(default=3, ge=0, le=10)
    max_concurrency: int = Field(default=256, ge=1, le=10_000)
    breaker_window: int = Field(default=50, ge=1)
    breaker_share: float = Field(default=0.5, gt=0, le=1)
    prices: Prices = Prices()
    quantization: str | None = None
    engine: dict[str, Any] = {}

    @model_validator(mode="after")
    def _samples_can_differ(self) -> Evaluator:
        if self.confidence == "sampled" and self.temperature < 0.1:
            raise ValueError(
                f"confidence: sampled needs a temperature of 0.1 or more, or all samples are one; found "
                f"{self.temperature:g}"
            )
        return self

    @model_validator(mode="after")
    def _endpoint_is_named(self) -> Evaluator:
        if self.backend != "vllm_offline" and (self.quantization is not None or self.engine):
            raise ValueError(
                f"quantization and engine are for backend vllm_offline; backend is {self.backend!r}. "
                "A server is told them when it is started"
            )
        if self.backend == "vllm_offline" and "model" not in self.model_fields_set:
            raise ValueError(
                "backend vllm_offline needs `model`, a folder or a name on a model hub"
            )
        if self.backend == "openai_compatible":
            if "model" not in self.model_fields_set:
                raise ValueError(
                    "backend openai_compatible needs `model`, the name the server knows"
                )
            if not _is_http(self.base_url or ""):
                found = "" if self.base_url is None else f"; found {self.base_url!r}"
                raise ValueError(
                    f"backend openai_compatible needs `base_url`, such as http://127.0.0.1:8000/v1{found}"
                )
            parts = urlsplit(self.base_url or "")
            if "@" in parts.netloc or parts.query:
                held = "a query" if parts.query else "a name or password"
                raise ValueError(
                    f"base_url holds {held}, which would be shown in logs; give the address alone, such as "
                    "http://127.0.0.1:8000/v1, and a key in the environment variable that api_key_env names"
                )
        return self


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # such as a bracket that never closes, or a port beyond 65535
        return False


class Range(Section):
    """Numbers from `at_least` to `at_most`, both included; null is no bound."""

    at_least: float | None = None
    at_most: float | None = None


def _condition(value: Any) -> Any:
    values = value if isinstance(value, list) else [value]
    if values and all(isinstance(one, bool | int | float | str) for one in values):
        return value
    bounds = value if isinstance(value, dict) else {}
    numbers = all(type(bound) in (int, float) for bound in bounds.values())
    if bounds and numbers and set(bounds) <= set(Range.model_fields):
        return Range(**bounds)
    raise ValueError(
        f"found {value!r}; accepted: a value, a list of values, or {{at_least: 1, at_most: 2}} with one or both"
    )


Condition = Annotated[Any, PlainValidator(_condition)]
"""What a column has to be: a value, one of several, or a number within a range. Null is none of them."""


class Panel(Section):
    """Evaluators that judge every record beside the task's own; `aggregate` is how numbers become one.

    Labels go by majority whatever the numbers do.
    """

    members: list[str] = Field(min_length=1)
    aggregate: Literal["mean", "median", "majority"] = "median"


class Escalation(Section):
    """Which records a larger evaluator judges after the first tier (the task's evaluator, or its panel).

    Those whose confidence is below `below_confidence` or not given, whose panel differs by more than
    `above_disagreement` (0 to 1), that fulfil every condition of one of `high_risk`, that have no valid verdict,
    and a share `audit_share` drawn at random.
    """

    evaluator: str
    below_confidence: float | None = Field(default=None, gt=0, le=1)
    above_disagreement: float | None = Field(default=None, ge=0, lt=1)
    high_risk: list[dict[str, Condition]] = []
    audit_share: float = Field(default=0.0, ge=0, le=1)


class Task(Section):
    """Settings of one task; its rubric is the folder of the same name under `prompts/`."""

    evaluator: str | None = None
    panel: Panel | None = None
    escalation: Escalation | None = None

    @property
    def others(self) -> list[str]:
        """The evaluators asked besides the task's own: the panel's members, then the larger one."""
        members = [] if self.panel is None else self.panel.members
        return [*members, *([] if self.escalation is None else [self.escalation.evaluator])]

    @model_validator(mode="after")
    def _disagreement_needs_a_panel(self) -> Task:
        if (
            self.panel is None
            and self.escalation is not None
            and self.escalation.above_disagreement is not None
        ):
            raise ValueError(
                "escalation.above_disagreement is set and there is no panel; accepted: a panel with members"
            )
        return self
