"""The HTTP client under AsyncOpenAI: aiohttp, without the steps that asking one endpoint never needs.

httpx2's own client merges headers, cookies and URLs, walks an authentication flow and streams each reply; of
the CPU time of a request that was a quarter. Replies here are small and read whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx2
from yarl import URL


class AiohttpClient(httpx2.AsyncClient):
    """What `openai.AsyncOpenAI(http_client=...)` takes, for requests to one host. It keeps no cookies.

    Connections are bounded by who asks, not here. Proxies are taken from the environment, as usual.
    """

    def __init__(self) -> None:
        self._aiohttp = _Transport()
        self._urls: dict[httpx2.URL | str, httpx2.URL] = {}
        super().__init__(transport=self._aiohttp, follow_redirects=True)

    def build_request(
        self,
        method: str,
        url: httpx2.URL | str,
        *,
        content: Any = None,
        headers: Any = None,
        timeout: Any = None,
        **others: Any,
    ) -> httpx2.Request:
        """The request with these headers alone."""
        if any(others.values()) or isinstance(content, str):
            return super().build_request(
                method, url, content=content, headers=headers, timeout=timeout, **others
            )
        if (parsed := self._urls.get(url)) is None:
            parsed = self._urls[url] = httpx2.URL(url)
        extensions = {"timeout": httpx2.Timeout(timeout).as_dict()}
        return httpx2.Request(
            method, parsed, content=content, headers=headers, extensions=extensions
        )

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """The whole reply; only a redirection takes httpx2's own way."""
        response = await self._aiohttp.handle_async_request(request)
        return await super().send(request, **options) if response.is_redirect else response


class _Transport(httpx2.AsyncBaseTransport):
    """Sends by one aiohttp session, made on the event loop that first uses it."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._proxies: dict[str, dict[str, Any]] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if self._session is None:
            self._session = _session()
        limits = request.extensions["timeout"]
        with _translated():
            async with self._session.request(
                request.method,
                str(request.url),
                headers=request.headers.multi_items(),
                data=await request.aread() or None,
                allow_redirects=False,
                **self._proxy(request.url),
                timeout=aiohttp.ClientTimeout(
                    sock_connect=limits["connect"], sock_read=limits["read"]
                ),
            ) as response:
                content = await response.read()
        return httpx2.Response(
            response.status, headers=response.raw_headers, content=content, request=request
        )

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _proxy(self, url: httpx2.URL) -> dict[str, Any]:
        """The arguments that say which proxy; its password apart, since errors tell the address."""
        host = url.host
        if host not in self._proxies:
            proxies = {} if proxy_bypass(host) else getproxies()
            address = proxies.get(url.scheme) or proxies.get("all")
            self._proxies[host] = {}
            if address is not None:
                proxy = URL(address)
                self._proxies[host] = {
                    "proxy": proxy.with_user(None),
                    "proxy_auth": aiohttp.BasicAuth.from_url(proxy),
                }
        return self._proxies[host]


def _session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=httpx2.create_ssl_context()),
        headers={"Accept-Encoding": "gzip, deflate"},
        cookie_jar=aiohttp.DummyCookieJar(),
        # httpx2.Response reads Content-Encoding itself.
        auto_decompress=False,
    )


@contextmanager
def _translated() -> Iterator[None]:
    """What aiohttp raises, as what httpx2 would."""
    try:
        yield
    except aiohttp.ConnectionTimeoutError as error:
        raise httpx2.ConnectTimeout(str(error)) from error
    except TimeoutError as error:
        raise httpx2.ReadTimeout(str(error)) from error
    except aiohttp.ClientConnectorError as error:
        raise httpx2.ConnectError(str(error)) from error
    except aiohttp.InvalidURL as error:
        raise httpx2.UnsupportedProtocol(str(error)) from error
    except aiohttp.ClientError as error:
        raise httpx2.ReadError(str(error) or type(error).__name__) from error
