"""The ceiling: AsyncOpenAI's transport alone, RECORDS times a body of BYTES, 64 in flight; no work done."""

from __future__ import annotations

import asyncio
import sys

import httpx2
import openai
from meter import Meter

_IN_FLIGHT = 64


async def _ask(base_url: str, records: int, size: int) -> None:
    body = b'{"padding": "' + b"x" * (size - 15) + b'"}'
    left = iter(range(records))
    async with openai.AsyncOpenAI(
        base_url=base_url,
        api_key="none",
        max_retries=0,
        http_client=openai.DefaultAioHttpClient(
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None)
        ),
    ) as client:

        async def worker() -> None:
            for _ in left:
                response = await client.post(
                    "/chat/completions",
                    content=body,
                    cast_to=httpx2.Response,
                    options={"headers": {"Content-Type": "application/json"}},
                )
                assert response.content

        await asyncio.gather(*(worker() for _ in range(_IN_FLIGHT)))


def main(base_url: str, records: int, size: int) -> None:
    meter = Meter()
    asyncio.run(_ask(base_url, records, size))
    meter.report(records)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
