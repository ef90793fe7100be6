"""Alerts: a condition that a person has to know of, told once, to the log and wherever the suite says."""

from __future__ import annotations

import hashlib
import hmac
import http.client
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
_LONGEST = 15.0
"""Seconds after which the rest is left to the next tick, which may take a minute with the tries under way."""


class AlertUndelivered(GavelError):
    """A receiver of alerts did not take one, in every try."""


@dataclass(frozen=True)
class Alert:
    """A condition that holds: `key` names it as long as it lasts, `what` and `todo` are sentences."""

    key: str
    kind: str
    what: str
    todo: str


@dataclass(frozen=True)
class Told:
    """What `tell` did: how many alerts it told, who has got each that holds, and which receivers took none."""

    news: int
    receivers: Mapping[str, Sequence[str]]
    broken: Sequence[str]


def receivers(settings: Alerts) -> list[str]:
    """Who is to be told: the log, and the webhook and Slack as far as `settings` name them."""
    named = {"webhook": settings.webhook_url_env, "slack": settings.slack_token_env}
    return ["log", *(name for name, variable in named.items() if variable is not None)]


def tell(
    before: Mapping[str, Sequence[str]],
    holding: Sequence[Alert],
    settings: Alerts,
    log: Callable[[str], None],
) -> Told:
    """Tell each alert that holds to every receiver that has not got it; `before` are the receivers by key.

    What was told stays quiet until it has cleared; what clears and comes back is told again. A receiver that
    does not take an alert is not tried again in this call, and keeps none from the others.
    """
    takers: dict[str, Callable[[Alert], None]] = {
        "log": lambda alert: log(f"{alert.what} {alert.todo}"),
        "webhook": lambda alert: _post(alert, _variable(str(settings.webhook_url_env)), settings),
        "slack": lambda alert: _slack(alert, settings),
    }
    until = time.monotonic() + _LONGEST
    got: dict[str, list[str]] = {}
    broken: dict[str, str] = {}
    news = 0
    for alert in holding:
        having = got.setdefault(alert.key, list(before.get(alert.key, ())))
        known = len(having)
        for name in receivers(settings):
            if name in having or name in broken or time.monotonic() > until:
                continue
            try:
                takers[name](alert)
                having.append(name)
            except AlertUndelivered as error:
                broken[name] = str(error)
        news += len(having) > known
    return Told(news, got, list(broken.values()))


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
        except OSError as error:
            reason = str(getattr(error, "reason", None) or error)
        except (ValueError, http.client.HTTPException):
            # An error about the address would show it.
            reason = "no http address, or no answer in HTTP"
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
        from slack_sdk.errors import SlackClientError
    except ImportError as error:
        raise AlertUndelivered(
            "alerts to Slack need the extra: .venv/bin/pip install -c constraints.txt -e '.[slack]'"
        ) from error
    client = WebClient(_variable(str(settings.slack_token_env)), timeout=int(_TIMEOUT))
    try:
        client.chat_postMessage(channel=settings.slack_channel, text=f"{alert.what}\n{alert.todo}")
    except (SlackClientError, OSError) as error:
        raise AlertUndelivered(f"Slack did not take an alert ({error}): {alert.what}") from error


def _variable(name: str, environment: Mapping[str, str] = os.environ) -> str:
    value = environment.get(name, "")
    if not value:
        raise AlertUndelivered(f"the environment variable {name}, which alerts need, is not set")
    return value
