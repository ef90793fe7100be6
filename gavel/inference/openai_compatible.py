"""The backend for any server that speaks OpenAI's chat completions: vLLM, OpenAI, llama.cpp, ..."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import cached_property
from time import time
from typing import Any
from weakref import WeakKeyDictionary

import aiohttp
import httpx2
import openai
import orjson

from gavel.errors import EvaluatorOutage, EvaluatorRefused
from gavel.inference.dispatch import Limits, TransportFault, dispatch
from gavel.inference.http import AiohttpClient
from gavel.inference.request import Answer, Decoding, Message, Question, Request
from gavel.settings.judging import Evaluator

_NEGOTIATED = ("json_schema", "json_schema", "json_object", "json_object")
"""What `auto` tries, each twice, so that one passing server error does not lose the stricter mode."""
_THROTTLING = (429, 503)
_PROBED = 30.0
"""Seconds at most that a probe may take: a tick of a sensor has a minute."""
_NO_SUCH_ROUTE = (400, 404, 405, 422, 501)
_OVERFLOW = (
    "context_length_exceeded",
    "context length",
    "context window",
    "context size",
    "prompt is too long",
    "reduce the length",
    "maximum number of tokens",
)
_FILTERED = ("content_filter", "content management policy", "content_policy")

_TO_TELL = 5.0
"""Seconds that a server has to tell its version."""
_SHORTEST_KEY = 8
"""Characters. What is shorter is no secret, but may be a word, such as the `none` of a server without keys."""

_UNTOLD: Mapping[str, Any] = dict.fromkeys(
    (
        f"X-Stainless-{fact}"
        for fact in ("Lang", "Package-Version", "OS", "Arch", "Runtime", "Runtime-Version", "Async")
    ),
    openai.Omit(),
)
"""What the client would tell the server of this machine with every request; nothing needs it."""


class OpenAICompatible:
    """Asks `evaluator.base_url`; the API key comes from the variable `evaluator.api_key_env`.

    With `structured_output: auto` the first request finds out what the server takes: a JSON Schema, the same
    schema as a JSON object (llama.cpp), or neither.
    """

    _route = "/chat/completions"

    def __init__(self, evaluator: Evaluator) -> None:
        assert evaluator.base_url is not None, "the suite checks it"
        self._evaluator = evaluator
        self._endpoint = f"{evaluator.base_url} (model {evaluator.model})"
        # A whole URL, since the client takes longer to join a path to its base_url.
        self._url = f"{evaluator.base_url.rstrip('/')}{self._route}"
        self._bodies: WeakKeyDictionary[Question, dict[str, bytes]] = WeakKeyDictionary()
        wanted = evaluator.structured_output
        self._mode: str | None = None if wanted == "auto" else wanted
        self._told_version: str | None = None

    def answers(self, requests: Iterable[Request]) -> Iterator[list[Answer]]:
        """Yield answers as they come; see `gavel.inference.dispatch.dispatch` for what is raised."""
        client = self._client()
        negotiation = asyncio.Lock()
        failures: list[TransportFault | EvaluatorRefused] = []

        async def send(request: Request) -> Answer:
            if self._mode is None:
                seen = len(failures)
                async with negotiation:
                    # An endpoint that failed twice while this waited, or refused, would fail it too. Else a hung
                    # one, asked by one request at a time, would take as many time-outs as the breaker needs
                    # failures. One failure may be of its request alone, and is not that of all who wait.
                    since = failures[seen:] if self._mode is None else []
                    if len(since) > 1 or any(isinstance(f, EvaluatorRefused) for f in since):
                        raise since[-1]
                    if self._mode is None:
                        try:
                            return await self._negotiate(client, request)
                        except (TransportFault, EvaluatorRefused) as error:
                            if isinstance(error, EvaluatorRefused) or error.retryable:
                                failures.append(error)
                            raise
            return await self._send(client, request, self._mode)

        evaluator = self._evaluator
        limits = Limits(
            evaluator.max_concurrency,
            evaluator.retries,
            evaluator.breaker_window,
            evaluator.breaker_share,
            evaluator.timeout,
        )
        return dispatch(
            requests, send, lambda: self._probe(client), client.close, limits, self._endpoint
        )

    def probe(self) -> None:
        """Ask the cheapest question that a judgement would also depend on.

        Raises:
            EvaluatorRefused: the key or the model is not accepted.
            EvaluatorOutage: no answer within the time-outs, or half a minute; or a server error.
        """
        longest = min(2 * self._evaluator.timeout, _PROBED)

        async def ask() -> None:
            client = self._client()
            try:
                async with asyncio.timeout(longest):
                    await self._probe(client)
            except TimeoutError as error:
                raise EvaluatorOutage(
                    f"{self._endpoint}: does not answer to a probe within {longest:g} s; run again when "
                    "the endpoint is back"
                ) from error
            finally:
                await client.close()

        asyncio.run(ask())

    def _client(self) -> openai.AsyncOpenAI:
        self._asking = asyncio.Lock()
        return openai.AsyncOpenAI(
            base_url=self._evaluator.base_url,
            api_key=self._api_key(),
            max_retries=0,
            timeout=self._evaluator.timeout,
            default_headers=_UNTOLD,
            http_client=AiohttpClient(),
        )

    def _api_key(self) -> str:
        """A server without authentication gets a key all the same: the client insists on one."""
        variable = self._evaluator.api_key_env
        key = os.environ.get(variable, "").strip() or "none"
        if not (key.isascii() and key.isprintable()):
            raise EvaluatorRefused(
                f"{self._endpoint}: the API key in the environment variable {variable} holds characters "
                "that no HTTP header can carry; accepted: printable ASCII"
            )
        return key

    async def _probe(self, client: openai.AsyncOpenAI) -> None:
        """List the models, then ask for two letters: a server may list them and complete nothing.

        The question has the evaluator's own decoding settings and no schema: whoever refuses it refuses all.
        """
        try:
            try:
                await client.get("/models", cast_to=httpx2.Response)
            except openai.APIStatusError as error:
                # A server without this route may be up all the same.
                if error.status_code not in _NO_SUCH_ROUTE:
                    raise self._status_fault(error) from error
            except (openai.APIConnectionError, aiohttp.ClientError) as error:
                raise TransportFault("connection", _connection_detail(error)) from error
            await self._send(client, self._probing, "none")
        except TransportFault as fault:
            if fault.failure in ("context_overflow", "content_filter"):
                return  # it reads and answers
            told = fault.code.replace("http_", "answers HTTP ")
            told = told if told != fault.code else "does not answer"
            if fault.retryable:
                raise EvaluatorOutage(
                    f"{self._endpoint}: {told} to a probe ({fault.detail}); check base_url, and run again when "
                    "the endpoint is back"
                ) from fault
            raise EvaluatorRefused(
                f"{self._endpoint}: {told} to the plainest question ({fault.detail}), so it would refuse every "
                "request; check the evaluator's settings in suite.yaml, above all `model` and `extra_body`"
            ) from fault

    @cached_property
    def _probing(self) -> Request:
        evaluator = self._evaluator
        extra = tuple(sorted(evaluator.extra_body.items()))
        decoding = Decoding(evaluator.temperature, evaluator.max_tokens, evaluator.seed, extra)
        question = Question(evaluator.model, decoding, "Reply with OK.")
        return question.request((Message("user", "Are you there?"),), 1)

    def _read(self, request: Request, content: bytes) -> Answer:
        """The answer in a reply. Raises TransportFault: the reply is none of the route's."""
        return _answer(request, content)

    async def _negotiate(self, client: openai.AsyncOpenAI, request: Request) -> Answer:
        """Find the first mode of structured output that the server takes, with a real request."""
        for mode in _NEGOTIATED:
            try:
                answer = await self._send(client, request, mode)
            except TransportFault as fault:
                if fault.code in ("http_400", "http_422", "http_500", "http_501") and (
                    fault.failure == "transport"
                ):
                    continue
                raise
            self._mode = mode
            return answer
        answer = await self._send(client, request, "none")
        self._mode = "none"
        return answer

    async def _send(self, client: openai.AsyncOpenAI, request: Request, mode: str) -> Answer:
        timeout = self._evaluator.timeout
        try:
            # The client's own time-out starts anew with every byte, so a trickling reply never meets it.
            async with asyncio.timeout(timeout):
                response = await client.post(
                    self._url, content=self._body(request, mode), cast_to=httpx2.Response
                )
        except (openai.APIConnectionError, aiohttp.ClientError, TimeoutError) as error:
            # A connection refused, or broken while the request is written, comes as a time-out of connecting.
            timed_out = isinstance(error, openai.APITimeoutError | TimeoutError)
            if timed_out and not isinstance(error.__cause__, httpx2.ConnectTimeout):
                detail = f"no answer within {timeout:g} s"
                raise TransportFault("timeout", detail, failure="timeout") from error
            raise TransportFault("connection", _connection_detail(error)) from error
        except openai.APIStatusError as error:
            raise self._status_fault(error) from error
        answer = self._read(request, self._without_key(response.content))
        if answer.model_revision is not None and "@" not in answer.model_revision:
            version = self._told_version
            answer.model_revision += await self._version(client) if version is None else version
        return answer

    async def _version(self, client: openai.AsyncOpenAI) -> str:
        """The version of a server that names no fingerprint of its own, as vLLM tells it; asked for once."""
        async with self._asking:
            if self._told_version is None:
                self._told_version = ""
                address = f"{str(self._evaluator.base_url).rstrip('/').removesuffix('/v1')}/version"
                # It is told if it can be; an answer is not lost for it.
                with suppress(openai.OpenAIError, aiohttp.ClientError, TimeoutError, ValueError):
                    async with asyncio.timeout(_TO_TELL):
                        reply = await client.get(address, cast_to=httpx2.Response)
                    told = orjson.loads(reply.content)
                    if isinstance(told, dict) and isinstance(told.get("version"), str):
                        self._told_version = f"@{told['version'][:40]}"
        return self._told_version

    def _reason(self, error: openai.APIStatusError) -> str:
        return self._without_key(_reason(error).encode()).decode()

    def _without_key(self, words: bytes) -> bytes:
        """What a server said, without the API key, should it repeat it: everything it says is kept."""
        key = self._api_key().encode()
        return words if len(key) < _SHORTEST_KEY else words.replace(key, b"(the API key)")

    def _status_fault(self, error: openai.APIStatusError) -> Exception:
        """What an HTTP status says: of this try, of this request, or of every request."""
        status, reason = error.status_code, self._reason(error)
        code = f"http_{status}"
        lowered = reason.lower()
        # Some gateways forbid (403) the one prompt that their filter stopped.
        if status in (400, 403, 422) and any(sign in lowered for sign in _FILTERED):
            return TransportFault(code, reason, failure="content_filter", retryable=False)
        if status in (401, 402, 403, 404) or "insufficient_quota" in reason:
            return self._refused(error)
        if status == 413 or (status in (400, 422) and any(sign in lowered for sign in _OVERFLOW)):
            return TransportFault(code, reason, failure="context_overflow", retryable=False)
        if status in _THROTTLING:
            wait = _retry_after(error.response.headers.get("retry-after"))
            return TransportFault(code, reason, throttled=True, retry_after=wait)
        return TransportFault(code, reason, retryable=status >= 500 or status in (408, 409))

    def _refused(self, error: openai.APIStatusError) -> EvaluatorRefused:
        status = error.status_code
        advice = (
            "check `model` and `base_url`"
            if status == 404
            else f"check the API key in the environment variable {self._evaluator.api_key_env}"
        )
        return EvaluatorRefused(
            f"{self._endpoint}: refuses every request with HTTP {status} ({self._reason(error)}); {advice}"
        )

    def _body(self, request: Request, mode: str) -> bytes:
        """The request as JSON; what its question shares is serialised once."""
        modes = self._bodies.setdefault(request.question, {})
        shared = modes.get(mode)
        if shared is None:
            shared = modes[mode] = self._shared(request.question, mode)
        messages = orjson.dumps([{"role": m.role, "content": m.content} for m in request.messages])
        return shared + messages[1:] + b"}"

    def _shared(self, question: Question, mode: str) -> bytes:
        """The body up to and with the system message, left open for the messages that follow."""
        decoding = question.decoding
        body: dict[str, Any] = {
            "model": question.model,
            "temperature": decoding.temperature,
            "max_tokens": decoding.max_tokens,
            **dict(decoding.extra),
        }
        if decoding.seed is not None:
            body["seed"] = decoding.seed
        if question.schema is not None and mode == "json_schema":
            schema = {"name": question.schema_name, "schema": question.schema, "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif question.schema is not None and mode == "json_object":
            body["response_format"] = {"type": "json_object", "schema": question.schema}
        system = {"role": question.system.role, "content": question.system.content}
        return orjson.dumps({**body, "messages": [system]})[:-2] + b","


def _answer(request: Request, content: bytes) -> Answer:
    """Read a chat completion.

    Raises:
        TransportFault: the reply is no chat completion.
    """
    try:
        reply = orjson.loads(content)
        choice = reply["choices"][0]
        message = choice["message"]
        finish_reason = _text(choice.get("finish_reason"))
        usage = reply.get("usage") or {}
        filtered = finish_reason == "content_filter"
        return Answer(
            request.request_hash,
            request.attempt,
            text=_text(message.get("content")),
            finish_reason=finish_reason,
            refusal=_text(message.get("refusal")),
            failure="content_filter" if filtered else None,
            detail="the server's filter cut the answer" if filtered else None,
            prompt_tokens=_count(usage.get("prompt_tokens")),
            completion_tokens=_count(usage.get("completion_tokens")),
            model_revision=_revision(reply),
            logprobs=token_logprobs(choice.get("logprobs")),
        )
    except (orjson.JSONDecodeError, KeyError, IndexError, TypeError, AttributeError) as error:
        shown = content[:80].decode("utf-8", "replace")
        raise TransportFault("bad_reply", f"not a chat completion: {shown!r}") from error


def _text(value: Any) -> str | None:
    """A field that should be text; anything else as the JSON it came as."""
    return value if value is None or isinstance(value, str) else orjson.dumps(value).decode()


def token_logprobs(found: Any) -> str | None:
    """The log-probabilities as the ledger keeps them; None where there are none, or none that can be read.

    Of the alternatives to a token only those with a digit are kept: only of a score is an expectation taken.
    """
    content = found.get("content") if isinstance(found, dict) else None
    if not isinstance(content, list):
        return None
    try:
        tokens = [
            [
                token["token"],
                float(token["logprob"]),
                {
                    other["token"]: float(other["logprob"])
                    for other in token.get("top_logprobs") or ()
                    if any(map(str.isdigit, other["token"]))
                },
            ]
            for token in content
        ]
        return orjson.dumps(tokens).decode()
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _count(value: Any) -> int | None:
    """A number of tokens, or None for what is none."""
    return value if type(value) is int and 0 <= value < 2**63 else None


def _revision(reply: dict[str, Any]) -> str | None:
    parts = [part for part in (reply.get("model"), reply.get("system_fingerprint")) if part]
    return "@".join(parts) or None


def _reason(error: openai.APIStatusError) -> str:
    """The server's own words, shortened: code and message where it gives them."""
    body = error.body
    if isinstance(body, dict):
        words = [str(body[key]) for key in ("code", "type", "message") if body.get(key)]
        if words:
            # JSON can spell half a surrogate pair, which nothing can store.
            reason = ": ".join(dict.fromkeys(words)).encode("utf-8", "replace").decode()
            return reason[:300]
    return (error.response.text or error.message).strip()[:300]


def _connection_detail(error: Exception) -> str:
    return str(error.__cause__ or error) or type(error.__cause__).__name__


def _retry_after(header: str | None) -> float | None:
    """Seconds to wait, from a Retry-After header in seconds or as a date; None when it cannot be read."""
    if header is None:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        date = parsedate_to_datetime(header)
        # Of a date without a zone: HTTP knows but one.
        date = date if date.tzinfo else date.replace(tzinfo=UTC)
        return max(0.0, date.timestamp() - time())
    except (ValueError, OverflowError):
        return None
