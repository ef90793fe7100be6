"""A chat-completions endpoint that answers at once: the ceiling that clients are measured against.

It parses nothing but lengths, so that on a shared machine the client is what is measured.
Run it as `python benchmarks/instant_endpoint.py PORT < answer.txt`; the answer is the text of every reply.
"""

import asyncio
import json
import sys
from typing import cast

import uvloop


class _Instant(asyncio.Protocol):
    def __init__(self, reply: bytes) -> None:
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
            self._transport.write(self._reply)


def _reply(text: str) -> bytes:
    message = {"role": "assistant", "content": text}
    body = json.dumps(
        {
            "id": "chatcmpl-instant",
            "object": "chat.completion",
            "created": 1,
            "model": "instant",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 4000, "completion_tokens": 120, "total_tokens": 4120},
        }
    ).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def _serve(port: int, reply: bytes) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Instant(reply), "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1]), _reply(sys.stdin.read())))
