"""What every section of suite.yaml has in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Settings that belong together. A key that is none of them is an error, and nothing changes once read."""

    model_config = ConfigDict(extra="forbid", frozen=True)
