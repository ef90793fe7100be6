"""A real HTTP server on 127.0.0.1 that speaks chat completions, and misbehaves as told."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from aiohttp import web


@dataclass(frozen=True)
class Ask:
    """One request as the server got it; `nth` counts from 1 how often the same body came."""

    body: Mapping[str, Any]
    nth: int
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def record(self) -> str:
        """The first user message: the record that is judged, without repairs."""
        return str(self.body["messages"][1]["content"])

    @property
    def share(self) -> float:
        """A number in [0, 1) that depends on the body and on `nth` alone: chance that can be repeated."""
        text = json.dumps(self.body, sort_keys=True) + str(self.nth)
        return int(hashlib.sha256(text.encode()).hexdigest()[:12], 16) / 16**12


@dataclass(frozen=True)
class Reply:
    """What the server does: text in a chat completion, or a status with a body, late, or cut off.

    `once` holds it back until that is set.
    `drop` closes the connection in place of a reply, `cut` in the middle of one; `trickle` sends a byte
    each so many seconds, without end.
    """

    text: str | None = None
    status: int = 200
    body: Any = None
    finish_reason: str = "stop"
    refusal: str | None = None
    logprobs: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    once: threading.Event | None = None
    drop: bool = False
    cut: bool = False
    trickle: float | None = None


Behaviour = Callable[[Ask], Reply]


class Endpoint:
    """Serves `behave` on a port of its own, in a thread; use it as a context manager.

    `asks` counts completions asked for by body; `answered` those that got a whole 200 reply. `embed` makes
    the embedding of a text, or the reply in its place; `embedded` counts the texts. `version` is
    what it says of itself apart from them, as vLLM does.
    """

    def __init__(
        self,
        behave: Behaviour,
        models: Callable[[], Reply] | None = None,
        embed: Callable[[str], list[float] | Reply] | None = None,
        version: str | None = None,
    ) -> None:
        self.behave = behave
        self.version = version
        self.versions_told = 0
        self.embed = embed
        self.embedded: Counter[str] = Counter()
        self.models = models or (lambda: Reply(body={"object": "list", "data": []}))
        self.asks: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.bodies: list[Mapping[str, Any]] = []
        self.most_in_flight = 0
        self._in_flight = 0
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.port = 0

    @property
    def url(self) -> str:
        """The base_url to ask."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def total(self) -> int:
        """How many completions were asked for, repeats included."""
        return sum(self.asks.values())

    def settled(self) -> int:
        """`total` once every client has closed its connections, and so what they had sent is counted."""
        server = self._runner.server
        assert server is not None
        deadline = time.monotonic() + 60
        while server.connections or self._in_flight:
            assert time.monotonic() < deadline, "a client keeps its connection"
            time.sleep(0.01)
        return self.total

    def __enter__(self) -> Endpoint:
        self._thread.start()
        assert self._ready.wait(10), "the test server did not start"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._start())
        self._ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(self._stop())
        self._loop.close()

    async def _start(self) -> None:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_post("/v1/embeddings", self._embed)
        app.router.add_get("/v1/models", self._list_models)
        app.router.add_get("/version", self._tell_version)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def _stop(self) -> None:
        await self._runner.cleanup()
        late = asyncio.all_tasks() - {asyncio.current_task()}
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _list_models(self, request: web.Request) -> web.StreamResponse:
        return _plain(self.models())

    async def _embed(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        (text,) = body["input"]
        self.embedded[text] += 1
        found = Reply(status=404) if self.embed is None else self.embed(text)
        if isinstance(found, Reply):
            return _plain(found)
        data = [{"object": "embedding", "index": 0, "embedding": found}]
        usage = {"prompt_tokens": len(text.split()), "total_tokens": len(text.split())}
        return web.json_response(
            {"object": "list", "data": data, "model": body["model"], "usage": usage}
        )

    async def _tell_version(self, request: web.Request) -> web.StreamResponse:
        self.versions_told += 1
        body = {"version": self.version}
        return _plain(Reply(status=404 if self.version is None else 200, body=body))

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        key = json.dumps(body, sort_keys=True)
        self.asks[key] += 1
        self.bodies.append(body)
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        try:
            reply = self.behave(Ask(body, self.asks[key], dict(request.headers)))
            if reply.delay:
                await asyncio.sleep(reply.delay)
            while reply.once is not None and not reply.once.is_set():
                await asyncio.sleep(0.05)
            if reply.drop:
                assert request.transport is not None
                request.transport.close()
                return web.Response()
            if reply.cut or reply.trickle is not None:
                return await _in_pieces(request, _completion(body, reply), reply.trickle)
            if reply.status == 200 and reply.body is None:
                self.answered[key] += 1
                return web.json_response(_completion(body, reply), headers=reply.headers)
            return _plain(reply)
        finally:
            self._in_flight -= 1


def _plain(reply: Reply) -> web.Response:
    text = reply.body if isinstance(reply.body, str) else json.dumps(reply.body)
    return web.Response(text=text, status=reply.status, headers=dict(reply.headers))


async def _in_pieces(
    request: web.Request, completion: Mapping[str, Any], trickle: float | None
) -> web.StreamResponse:
    """Half a reply and then nothing more, or one that never comes to its end."""
    content = json.dumps(completion).encode()
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.content_length = len(content)
    await response.prepare(request)
    await response.write(content[: len(content) // 2])
    while trickle is not None:
        await asyncio.sleep(trickle)
        await response.write(b" ")
    assert request.transport is not None
    request.transport.close()
    return response


def _completion(body: Mapping[str, Any], reply: Reply) -> dict[str, Any]:
    message = {"role": "assistant", "content": reply.text, "refusal": reply.refusal}
    return {
        "id": "chatcmpl-test",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "system_fingerprint": "fp_test",
        "choices": [
            {
                "index": 0,
                "message": message,
                "finish_reason": reply.finish_reason,
                "logprobs": reply.logprobs,
            }
        ],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
    }


def answer_to(body: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """A valid answer to the JSON Schema of a request's body: least numbers, first label values.

    Labels nested in one another must have their first values under one another. `changes` replace
    values; a change to None removes the key.
    """
    form = body["response_format"]
    schema = form["json_schema"]["schema"] if "json_schema" in form else form["schema"]
    answer: dict[str, Any] = {}
    for name, kind in schema["properties"].items():
        if "enum" in kind:
            answer[name] = kind["enum"][0]
        elif kind["type"] == "string":
            answer[name] = "because"
        else:
            answer[name] = kind["minimum"]
    answer |= changes
    return {name: value for name, value in answer.items() if value is not None}


def valid(ask: Ask) -> Reply:
    """Behave well, towards a probe too."""
    return Reply(json.dumps(answer_to(ask.body)) if "response_format" in ask.body else "OK")
