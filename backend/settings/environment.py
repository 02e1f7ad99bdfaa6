"""Where CaMVo runs and what is secret: the environment variables."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AliasChoices,
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

from backend.errors import ConfigError

from .mistakes import config_error
from .models import ModelSettings

LogLevel = Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(lambda v: str(v).lower())]


_OWN = ("CAMVO_", "BASIC_AUTH_", "LABEL_STUDIO_", "PROMETHEUS_MULTIPROC_DIR")


class Environment(BaseSettings):
    """The variables ``CAMVO_…``, ``BASIC_AUTH_…``, ``LABEL_STUDIO_…``; an empty one is as good as absent.

    Raises:
        ConfigError: a variable that cannot be read; ``where`` is its name.
    """

    model_config = SettingsConfigDict(
        env_prefix="CAMVO_", env_ignore_empty=True, frozen=True, extra="ignore", populate_by_name=True
    )

    database_url: str = Field(default="sqlite:///camvo.sqlite", repr=False)
    """The ledger; kept out of ``repr`` since it may hold a password."""
    config: Path | None = None
    """``camvo.yaml``; the embedded voters when unset."""
    basic_auth_user: str | None = Field(
        default=None, validation_alias=AliasChoices("basic_auth_user", "BASIC_AUTH_USER")
    )
    basic_auth_pass: SecretStr | None = Field(
        default=None, validation_alias=AliasChoices("basic_auth_pass", "BASIC_AUTH_PASS")
    )
    webhook_secret: SecretStr | None = None
    """What the header of a webhook must carry when it comes without basic auth."""
    label_studio_url: str | None = Field(
        default=None, validation_alias=AliasChoices("label_studio_url", "LABEL_STUDIO_URL")
    )
    """Where Label Studio is. Never taken from a request: the API key goes there."""
    label_studio_api_key: SecretStr | None = Field(
        default=None, validation_alias=AliasChoices("label_studio_api_key", "LABEL_STUDIO_API_KEY")
    )
    """A personal access token or a legacy token of somebody who may change the project."""
    host: str = "127.0.0.1"
    port: int = Field(default=9090, ge=0, le=65535)
    """0 takes a free one."""
    workers: int = Field(default=1, ge=1)
    """Processes."""
    threads: int = Field(default=32, ge=3)
    """Threads a worker; two of them are kept free for ``/health`` and webhooks."""
    max_body_mb: int = Field(default=10, ge=1)
    """Megabytes that a request may have; Label Studio sends every task of a project in one."""
    log_level: LogLevel = "info"
    prometheus_multiproc_dir: Path | None = Field(
        default=None, validation_alias=AliasChoices("prometheus_multiproc_dir", "PROMETHEUS_MULTIPROC_DIR")
    )
    """Where the worker processes share their metrics; ``camvo serve`` sets it."""

    @model_validator(mode="wrap")
    @classmethod
    def _named(cls, data: object, handler: ModelWrapValidatorHandler[Environment]) -> Environment:
        try:
            made = handler(data)
        except ValidationError as error:
            raise _variable_error(error) from None
        if (made.basic_auth_user is None) != (made.basic_auth_pass is None):
            missing = "BASIC_AUTH_USER" if made.basic_auth_user is None else "BASIC_AUTH_PASS"
            raise ConfigError(
                "is missing", where=missing, fix="set both BASIC_AUTH_USER and BASIC_AUTH_PASS, or none"
            )
        if made.label_studio_url is not None and "@" in made.label_studio_url:
            raise ConfigError(
                "credentials do not belong in an address",
                where="LABEL_STUDIO_URL",
                fix="set LABEL_STUDIO_API_KEY",
            )
        return made

    def secret(self, name: str) -> str | None:
        """The value of a variable that ``api_key_env`` names, ``None`` when unset or blank."""
        return os.environ.get(name, "").strip() or None

    def keys(self, models: Sequence[ModelSettings]) -> dict[str, str]:
        """Model name → API key, of the models that name a variable which is set."""
        named = {model.name: self.secret(model.api_key_env) for model in models if model.api_key_env}
        return {name: key for name, key in named.items() if key is not None}


def export(**variables: str) -> None:
    """Set variables that libraries read when they are imported, and that child processes inherit."""
    os.environ.update(variables)


def child_environment(**variables: str) -> dict[str, str]:
    """The environment for a child process that runs with the defaults and ``variables``."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_OWN)}
    return inherited | variables


def _variable_error(error: ValidationError) -> ConfigError:
    """The same error under the name that stands in the environment."""
    made = config_error(error, "environment", Environment, joint=": ")
    name = str(error.errors()[0]["loc"][0]).upper()
    named = name.startswith(("BASIC_AUTH", "LABEL_STUDIO", "PROMETHEUS"))
    where = name if named else f"CAMVO_{name.removeprefix('CAMVO_')}"
    return ConfigError(made.message, where=where, fix=made.fix)
