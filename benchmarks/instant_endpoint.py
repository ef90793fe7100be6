"""A chat-completions endpoint that answers at once: the ceiling that clients are measured against.

It parses nothing but lengths, so that on a shared machine the client is what is measured.
Run it as `python benchmarks/instant_endpoint.py PORT < answer.txt`; the answer is the text of every reply.
`GET /v1/stats` tells how many requests were posted.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from typing import cast

import uvloop


class _Instant(asyncio.Protocol):
    posted = 0

    def __init__(self, reply: Callable[[], bytes]) -> None:
        self._reply = reply
        self._buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        while (end := buffer.find(b"\r\n\r\n")) >= 0:
            head = bytes(buffer[:end]).lower()
            length = 0
            if (at := head.find(b"content-length:")) >= 0:
                length = int(head[at + 15 :].split(b"\r\n", 1)[0])
            if len(buffer) < end + 4 + length:
                return
            del buffer[: end + 4 + length]
            if head.startswith(b"get "):
                self._transport.write(response(200, {"posted": _Instant.posted}))
            else:
                _Instant.posted += 1
                self._transport.write(self._reply())


def response(status: int, body: object) -> bytes:
    """An HTTP response with `body` as JSON."""
    content = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} {'OK' if status == 200 else 'Error'}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


def completion(text: str, finish_reason: str = "stop") -> bytes:
    """A chat completion that holds `text`."""
    message = {"role": "assistant", "content": text}
    body = {
        "id": "chatcmpl-instant",
        "object": "chat.completion",
        "created": 1,
        "model": "instant",
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": 4000, "completion_tokens": 120, "total_tokens": 4120},
    }
    return response(200, body)


def serve(port: int, reply: Callable[[], bytes]) -> None:
    """Answer every POST on `port` with `reply()`, until killed."""
    uvloop.run(_serve(port, reply))


async def _serve(port: int, reply: Callable[[], bytes]) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Instant(reply), "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    the_reply = completion(sys.stdin.read())
    serve(int(sys.argv[1]), lambda: the_reply)
