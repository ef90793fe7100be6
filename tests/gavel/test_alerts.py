"""Alerts reach a real webhook, signed, retried, and without showing what is secret."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gavel import alerts
from gavel.alerts import SIGNATURE_HEADER, Alert, AlertUndelivered, deliver, news
from gavel.settings.operation import Alerts

DOWN = Alert("evaluator down", "evaluator_down", "The evaluator is down.", "See to the endpoint.")
DRIFT = Alert("drift", "quality", "Helpfulness fell.", "Open the report.")


class Receiver(ThreadingHTTPServer):
    """Takes posts; answers 500 to the first `refusals` of them."""

    def __init__(self, refusals: int = 0) -> None:
        self.refusals = refusals
        self.got: list[tuple[bytes, str]] = []
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((body, self.headers.get(SIGNATURE_HEADER, "")))
        self.send_response(500 if len(self.server.got) <= self.server.refusals else 200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Stay quiet."""


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setattr(alerts, "_PAUSE", 0.01)
    with Receiver() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/hook?token=hidden-token"
        monkeypatch.setenv("HOOK", url)
        monkeypatch.setenv("HOOK_SECRET", "s3cret")
        yield server
        server.shutdown()


SETTINGS = Alerts(webhook_url_env="HOOK", webhook_secret_env="HOOK_SECRET")


def test_an_alert_is_told_once_and_again_only_after_it_has_cleared() -> None:
    told, opened = news([], [DOWN])
    assert (told, opened) == ([DOWN], ["evaluator down"])
    assert news(opened, [DOWN, DRIFT]) == ([DRIFT], ["evaluator down", "drift"])
    told, opened = news(opened, [])
    assert (told, opened) == ([], [])
    assert news(opened, [DOWN])[0] == [DOWN]


def test_a_webhook_gets_signed_json(receiver: Receiver) -> None:
    log: list[str] = []
    deliver([DOWN], SETTINGS, log.append)
    ((body, signature),) = receiver.got
    expected = {"key": DOWN.key, "kind": DOWN.kind, "what": DOWN.what, "todo": DOWN.todo}
    assert json.loads(body) == expected
    assert signature == "sha256=" + hmac.new(b"s3cret", body, hashlib.sha256).hexdigest()
    assert log == ["The evaluator is down. See to the endpoint."]


def test_a_webhook_that_stumbles_is_tried_again(receiver: Receiver) -> None:
    receiver.refusals = 2
    deliver([DOWN], SETTINGS, lambda text: None)
    assert len(receiver.got) == 3


def test_a_webhook_that_refuses_is_told_without_its_address(receiver: Receiver) -> None:
    receiver.refusals = 99
    with pytest.raises(AlertUndelivered) as raised:
        deliver([DOWN], SETTINGS, lambda text: None)
    assert len(receiver.got) == 3
    assert "HOOK" in str(raised.value)
    assert "The evaluator is down." in str(raised.value)
    assert "hidden-token" not in str(raised.value)


def test_a_missing_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOOK", raising=False)
    with pytest.raises(AlertUndelivered, match="HOOK"):
        deliver([DOWN], SETTINGS, lambda text: None)
