"""``alerts`` in ``camvo.yaml``: where alarms are posted. The address itself is a credential."""

from __future__ import annotations

import re

from pydantic import BaseModel, field_validator, model_validator

from .mistakes import FROZEN, mistake

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FIX = "put the address into an environment variable, and write alerts: {url_env: CAMVO_ALERTS_URL}"


class AlertSettings(BaseModel):
    """Where alarms are posted; errors never repeat what was written, since it may be the address itself."""

    model_config = FROZEN

    url_env: str | None = None
    """The environment variable that holds the address, such as that of a Slack webhook; null: nowhere."""

    @model_validator(mode="before")
    @classmethod
    def _is_mapping(cls, value: object) -> object:
        if not isinstance(value, dict | AlertSettings):
            raise mistake("", "is not a mapping", _FIX)
        return value

    @field_validator("url_env", mode="before")
    @classmethod
    def _names_a_variable(cls, name: object) -> object:
        if name is not None and not (isinstance(name, str) and _NAME.fullmatch(name)):
            raise mistake("", "is not the name of an environment variable", _FIX)
        return name
