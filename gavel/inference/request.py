"""Requests and answers: what is asked of a model, and what came back."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import orjson

Role = Literal["system", "user", "assistant"]
Failure = Literal["timeout", "transport", "context_overflow", "content_filter"]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a request."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Decoding:
    """How the model is to write; `extra` goes to the server as it is."""

    temperature: float
    max_tokens: int
    seed: int | None = None
    extra: tuple[tuple[str, Any], ...] = ()


class Question:
    """What many requests share: model, decoding, response schema and the leading system message.

    It is hashed once; each request's hash continues from there, so the long prefix costs nothing
    a record.
    """

    def __init__(
        self,
        model: str,
        decoding: Decoding,
        system: str,
        schema: Mapping[str, Any] | None = None,
        schema_name: str = "answer",
    ) -> None:
        self.model = model
        self.decoding = decoding
        self.system = Message("system", system)
        self.schema = schema
        self.schema_name = schema_name
        shared = [
            model,
            decoding.temperature,
            decoding.max_tokens,
            decoding.seed,
            decoding.extra,
            schema,
            system,
        ]
        # The order of the schema's properties counts: it is the order in which they are answered.
        self._digest = hashlib.sha256(orjson.dumps(shared))

    def request(self, messages: tuple[Message, ...], attempt: int, subject: Any = None) -> Request:
        """The request that follows the system message with `messages`."""
        digest = self._digest.copy()
        for message in messages:
            content = message.content.encode("utf-8", "surrogatepass")
            # With its length, so that no text can pass for the end of one message and the start of another.
            digest.update(f"{message.role} {len(content)}\n".encode())
            digest.update(content)
        return Request(digest.hexdigest()[:32], attempt, self, messages, subject)


@dataclass(frozen=True, slots=True)
class Request:
    """One question to a model, named by `request_hash`: messages, schema, model and decoding.

    `subject` is what a rule-based backend reads in place of the rendered messages. It is not hashed,
    since whatever it says has to be in the messages too.
    """

    request_hash: str
    attempt: int
    question: Question
    messages: tuple[Message, ...]
    subject: Any = None

    @property
    def key(self) -> tuple[str, int]:
        """What an answer is stored under."""
        return self.request_hash, self.attempt


@dataclass(slots=True)
class Answer:
    """What came back for one request: the model's text, or the transport's failure.

    `retries` names what each repeated try ran into (`http_429`, `timeout`, ...); `latency_ms` is the
    time of the last try alone; `logprobs` is JSON, of each token itself, its log-probability, and
    those of the numbers that could have stood there; `answered_at` is in seconds since 1970, UTC.
    """

    request_hash: str
    attempt: int
    text: str | None = None
    finish_reason: str | None = None
    refusal: str | None = None
    failure: Failure | None = None
    detail: str | None = None
    retries: list[str] = field(default_factory=list)
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    latency_ms: float | None = None
    model_revision: str | None = None
    logprobs: str | None = None
    answered_at: float = field(default_factory=time.time)


class Backend(Protocol):
    """Whatever turns a stream of requests into a stream of answers, in any order.

    Raises:
        EvaluatorRefused: every request would be refused (authentication, unknown model).
        EvaluatorOutage: the model cannot be reached, or fails most requests.
    """

    def answers(self, requests: Iterable[Request]) -> Iterator[list[Answer]]:
        """Yield answers as they come, pulling requests only as capacity allows."""
        ...

    def probe(self) -> None:
        """Return when the model can be asked, raise as above when it cannot."""
        ...
