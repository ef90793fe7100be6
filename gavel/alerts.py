"""Alerts: a condition that a person has to know of, told once, to the log and wherever the suite says."""

from __future__ import annotations

import hashlib
import hmac
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import orjson

from gavel.errors import GavelError
from gavel.settings.operation import Alerts

SIGNATURE_HEADER = "X-Gavel-Signature"
_TRIES = 3
_PAUSE = 0.5
_TIMEOUT = 10.0


class AlertUndelivered(GavelError):
    """A receiver of alerts did not take one, in every try."""


@dataclass(frozen=True)
class Alert:
    """A condition that holds: `key` names it as long as it lasts, `what` and `todo` are sentences."""

    key: str
    kind: str
    what: str
    todo: str


def news(open_before: Sequence[str], holding: Sequence[Alert]) -> tuple[list[Alert], list[str]]:
    """The alerts to tell now, and the keys that are open after that.

    What was open stays quiet until it has cleared; what clears and comes back is told again.
    """
    told = [alert for alert in holding if alert.key not in set(open_before)]
    return told, [alert.key for alert in holding]


def deliver(alerts: Sequence[Alert], settings: Alerts, log: Callable[[str], None]) -> None:
    """Tell `alerts` to the log, to the webhook and to Slack, as far as `settings` name them.

    Raises:
        AlertUndelivered: a receiver does not take them, or a variable that should name it is not set.
    """
    for alert in alerts:
        log(f"{alert.what} {alert.todo}")
        if settings.webhook_url_env is not None:
            _post(alert, _variable(settings.webhook_url_env), settings)
        if settings.slack_token_env is not None:
            _slack(alert, settings)


def _post(alert: Alert, url: str, settings: Alerts) -> None:
    body = orjson.dumps(asdict(alert))
    headers = {"Content-Type": "application/json"}
    if settings.webhook_secret_env is not None:
        secret = _variable(settings.webhook_secret_env).encode()
        digest = hmac.new(secret, body, hashlib.sha256).hexdigest()
        headers[SIGNATURE_HEADER] = f"sha256={digest}"
    for attempt in range(_TRIES):
        try:
            request = urllib.request.Request(url, body, headers)
            with urllib.request.urlopen(request, timeout=_TIMEOUT):
                return
        except (OSError, ValueError) as error:
            # An error about the address would show it.
            no_address = isinstance(error, ValueError) and not isinstance(error, OSError)
            reason = "no http address" if no_address else getattr(error, "reason", None) or error
            if attempt + 1 < _TRIES:
                time.sleep(_PAUSE * 2**attempt)
    # The address may hold a token of its own, so it is not shown.
    raise AlertUndelivered(
        f"the webhook named by {settings.webhook_url_env} did not take an alert in {_TRIES} tries ({reason}); "
        f"the alert was: {alert.what}"
    )


def _slack(alert: Alert, settings: Alerts) -> None:
    try:
        from slack_sdk import WebClient
        from slack_sdk.errors import SlackApiError
    except ImportError as error:
        raise AlertUndelivered(
            "alerts to Slack need the extra: .venv/bin/pip install -c constraints.txt -e '.[slack]'"
        ) from error
    client = WebClient(token=_variable(str(settings.slack_token_env)))
    try:
        client.chat_postMessage(channel=settings.slack_channel, text=f"{alert.what}\n{alert.todo}")
    except (SlackApiError, OSError) as error:
        raise AlertUndelivered(f"Slack did not take an alert ({error}): {alert.what}") from error


def _variable(name: str, environment: Mapping[str, str] = os.environ) -> str:
    value = environment.get(name, "")
    if not value:
        raise AlertUndelivered(f"the environment variable {name}, which alerts need, is not set")
    return value
