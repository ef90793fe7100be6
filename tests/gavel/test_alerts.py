"""Alerts reach a real webhook, signed, retried, and without showing what is secret."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gavel import alerts
from gavel.alerts import SIGNATURE_HEADER, Alert, Told, tell
from gavel.settings.operation import Alerts

DOWN = Alert("evaluator down", "evaluator_down", "The evaluator is down.", "See to the endpoint.")
DRIFT = Alert("drift", "quality", "Helpfulness fell.", "Open the report.")


class Receiver(ThreadingHTTPServer):
    """Takes posts; answers 500 to the first `refusals` of them."""

    def __init__(self, refusals: int = 0) -> None:
        self.refusals = refusals
        self.got: list[tuple[bytes, str]] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def kinds(self) -> list[str]:
        """The kinds of the alerts it was sent, in order."""
        return [json.loads(body)["kind"] for body, _ in self.got]


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


def told(before: Mapping[str, Sequence[str]], *holding: Alert) -> Told:
    return tell(before, holding, SETTINGS, lambda text: None)


def test_an_alert_is_told_once_and_again_only_after_it_has_cleared(receiver: Receiver) -> None:
    first = told({}, DOWN)
    assert (first.news, first.receivers) == (1, {"evaluator down": ["log", "webhook"]})
    both = told(first.receivers, DOWN, DRIFT)
    assert (both.news, list(both.receivers)) == (1, ["evaluator down", "drift"])
    assert told(both.receivers, DOWN, DRIFT).news == 0
    cleared = told(both.receivers)
    assert (cleared.news, cleared.receivers) == (0, {})
    assert told(cleared.receivers, DOWN).news == 1
    assert receiver.kinds == ["evaluator_down", "quality", "evaluator_down"]


def test_a_broken_receiver_harms_no_other(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "slack_sdk", None)
    settings = SETTINGS.model_copy(update={"slack_token_env": "SLACK", "slack_channel": "#a"})
    log: list[str] = []
    before: Mapping[str, Sequence[str]] = {}
    for holding in ([DOWN], [DOWN], [DOWN, DRIFT], [DOWN, DRIFT]):
        result = tell(before, holding, settings, log.append)
        assert len(result.broken) == 1, "told once a tick"
        assert "need the extra" in result.broken[0]
        before = result.receivers
    assert receiver.kinds == ["evaluator_down", "quality"]
    assert len(log) == 2


def test_a_webhook_that_is_down_gets_all_of_it_once_it_is_back(receiver: Receiver) -> None:
    receiver.refusals = 3
    first = told({}, DOWN, DRIFT)
    assert len(receiver.got) == 3, "the second alert is not tried in vain"
    assert first.receivers == {"evaluator down": ["log"], "drift": ["log"]}
    assert len(first.broken) == 1
    second = told(first.receivers, DOWN, DRIFT)
    assert receiver.kinds[3:] == ["evaluator_down", "quality"]
    assert not second.broken
    assert told(second.receivers, DOWN, DRIFT).news == 0


def test_who_answers_no_http_is_told_of_and_stops_nothing(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def babble() -> None:
            for _ in range(3):
                connection, _ = server.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(b"220 mail ready\r\n\r\n")

        threading.Thread(target=babble, daemon=True).start()
        monkeypatch.setenv("HOOK", f"http://127.0.0.1:{server.getsockname()[1]}/hook")
        (sentence,) = told({}, DOWN).broken
    assert "HOOK did not take an alert in 3 tries" in sentence


def test_a_webhook_gets_signed_json(receiver: Receiver) -> None:
    log: list[str] = []
    tell({}, [DOWN], SETTINGS, log.append)
    ((body, signature),) = receiver.got
    expected = {"key": DOWN.key, "kind": DOWN.kind, "what": DOWN.what, "todo": DOWN.todo}
    assert json.loads(body) == expected
    assert signature == "sha256=" + hmac.new(b"s3cret", body, hashlib.sha256).hexdigest()
    assert log == ["The evaluator is down. See to the endpoint."]


def test_a_webhook_that_stumbles_is_tried_again(receiver: Receiver) -> None:
    receiver.refusals = 2
    assert not told({}, DOWN).broken
    assert len(receiver.got) == 3


def test_a_webhook_that_refuses_is_told_without_its_address(receiver: Receiver) -> None:
    receiver.refusals = 99
    (sentence,) = told({}, DOWN).broken
    assert len(receiver.got) == 3
    assert "HOOK" in sentence
    assert "The evaluator is down." in sentence
    assert "hidden-token" not in sentence


def test_a_missing_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOOK", raising=False)
    (sentence,) = told({}, DOWN).broken
    assert "HOOK" in sentence
