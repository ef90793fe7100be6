"""The daily running: quality, automation, alerts and budgets."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gavel.settings.section import Section


class Quality(Section):
    """How scores are aggregated, compared with the days before, and warned about.

    `max_psi` bounds the population stability index, `alpha` the p-value of the two-sample tests.
    """

    normalise: Literal["zscore", "minmax"] = "zscore"
    window_days: int = Field(default=7, ge=1, le=90)
    max_psi: float = Field(default=0.2, gt=0)
    alpha: float = Field(default=0.001, gt=0, lt=1)
    max_invalid_rate: float = Field(default=0.05, ge=0, le=1)
    max_rejected_rate: float = Field(default=0.1, ge=0, le=1)
    record_pages: int = Field(default=0, ge=0, le=10_000)


class Alerts(Section):
    """Where alerts go besides the log. Addresses and secrets stand in the environment variables named here."""

    webhook_url_env: str | None = None
    webhook_secret_env: str | None = None
    slack_token_env: str | None = None
    slack_channel: str | None = None


class Automation(Section):
    """What runs by itself, and within which bounds. Times are in seconds, hours of the suite's time zone.

    Only the last `look_back_days` days are kept fresh; a tick asks for at most `runs_a_tick` runs. A failed
    partition is tried `attempts` times in all, `backoff` seconds after its first failure, twice as long after
    each further one. Unresolved records are asked again in at most `unresolved_rounds` further rounds.
    """

    look_back_days: int = Field(default=14, ge=1, le=400)
    interval: int = Field(default=30, ge=1, le=3600)
    runs_a_tick: int = Field(default=20, ge=1, le=500)
    attempts: int = Field(default=5, ge=1, le=20)
    backoff: float = Field(default=60.0, ge=0)
    unresolved_rounds: int = Field(default=1, ge=0, le=10)
    inventory_hour: int = Field(default=7, ge=0, le=23)
    alerts: Alerts = Alerts()


class Budget(Section):
    """What may be spent in a day of the suite's time zone, over all runs; null sets no bound."""

    requests: int | None = Field(default=None, ge=1)
    tokens: int | None = Field(default=None, ge=1)
    usd: float | None = Field(default=None, gt=0)
