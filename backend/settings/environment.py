"""The environment variables: where CaMVo runs, and its secrets."""

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
from backend.settings.mistakes import config_error
from backend.settings.models import ModelSettings

_LogLevel = Annotated[
    Literal["debug", "info", "warning", "error"], BeforeValidator(lambda level: str(level).lower())
]

_OWN = ("CAMVO_", "BASIC_AUTH_", "LABEL_STUDIO_", "PROMETHEUS_MULTIPROC_DIR")


WEBHOOK_HEADER = "X-Camvo-Secret"
"""The header that authenticates Label Studio's webhooks, which carry no basic auth."""


class Environment(BaseSettings):
    """The variables ``CAMVO_…``, ``BASIC_AUTH_…`` and ``LABEL_STUDIO_…``. An empty one counts as absent.

    Raises:
        ConfigError: a variable is invalid; ``where`` is its name.
    """

    model_config = SettingsConfigDict(
        env_prefix="CAMVO_", env_ignore_empty=True, frozen=True, extra="ignore", populate_by_name=True
    )

    database_url: str = Field(default="sqlite:///camvo.sqlite", repr=False)
    """The ledger's database. Not in ``repr``, because it may hold a password."""
    config: Path | None = None
    """The path of ``camvo.yaml``; if unset, the defaults apply."""
    basic_auth_user: str | None = Field(
        default=None, validation_alias=AliasChoices("basic_auth_user", "BASIC_AUTH_USER")
    )
    basic_auth_pass: SecretStr | None = Field(
        default=None, validation_alias=AliasChoices("basic_auth_pass", "BASIC_AUTH_PASS")
    )
    webhook_secret: SecretStr | None = None
    """The value that a webhook without basic auth must have in its header ``X-Camvo-Secret``."""
    label_studio_url: str | None = Field(
        default=None, validation_alias=AliasChoices("label_studio_url", "LABEL_STUDIO_URL")
    )
    """Label Studio's address. Never taken from a request, because the API key is sent there."""
    label_studio_public_url: str | None = Field(
        default=None, validation_alias=AliasChoices("label_studio_public_url", "LABEL_STUDIO_PUBLIC_URL")
    )
    """Label Studio's address for people's browsers, for links; if unset, ``label_studio_url``."""
    label_studio_api_key: SecretStr | None = Field(
        default=None, validation_alias=AliasChoices("label_studio_api_key", "LABEL_STUDIO_API_KEY")
    )
    """A personal access token or a legacy token of a user who may change the project."""
    host: str = "127.0.0.1"
    port: int = Field(default=9090, ge=0, le=65535)
    """The port to listen on; 0 chooses a free one."""
    workers: int = Field(default=1, ge=1)
    """Worker processes."""
    threads: int = Field(default=256, ge=1)
    """Requests for predictions that may wait at once in each worker; all others have threads of their own."""
    max_body_mb: int = Field(default=10, ge=1)
    """The largest request, in megabytes. Label Studio sends all tasks of a project in one."""
    max_tasks: int = Field(default=5000, ge=1)
    """The most tasks in one request for predictions."""
    log_level: _LogLevel = "info"
    otlp_endpoint: str | None = Field(
        default=None,
        validation_alias=AliasChoices(
            "otlp_endpoint", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"
        ),
    )
    """The collector that traces are sent to; none are recorded without it. OpenTelemetry reads it itself."""
    trace_content: bool = False
    """Whether traces hold prompts and answers."""
    prometheus_multiproc_dir: Path | None = Field(
        default=None, validation_alias=AliasChoices("prometheus_multiproc_dir", "PROMETHEUS_MULTIPROC_DIR")
    )
    """The folder in which worker processes share their metrics; ``camvo serve`` sets it."""

    @model_validator(mode="wrap")
    @classmethod
    def _errors_name_variables(
        cls, data: object, handler: ModelWrapValidatorHandler[Environment]
    ) -> Environment:
        try:
            environment = handler(data)
        except ValidationError as error:
            raise _variable_error(error) from None
        if (environment.basic_auth_user is None) != (environment.basic_auth_pass is None):
            missing = "BASIC_AUTH_USER" if environment.basic_auth_user is None else "BASIC_AUTH_PASS"
            raise ConfigError(
                "is missing", where=missing, fix="set both BASIC_AUTH_USER and BASIC_AUTH_PASS, or neither"
            )
        if environment.label_studio_url is not None and "@" in environment.label_studio_url:
            raise ConfigError(
                "an address must not contain credentials",
                where="LABEL_STUDIO_URL",
                fix="remove them and set LABEL_STUDIO_API_KEY",
            )
        return environment

    @property
    def label_studio_access(self) -> tuple[str, SecretStr] | None:
        """Label Studio's address and the API key; ``None`` unless both are set."""
        url, key = self.label_studio_url, self.label_studio_api_key
        return None if url is None or key is None else (url, key)

    def secret(self, name: str) -> str | None:
        """Return the value of the variable ``name``, or ``None`` if it is unset or blank."""
        return os.environ.get(name, "").strip() or None

    def keys(self, models: Sequence[ModelSettings]) -> dict[str, str]:
        """Return model name → API key, for the models whose ``api_key_env`` is set."""
        named = {model.name: self.secret(model.api_key_env) for model in models if model.api_key_env}
        return {name: key for name, key in named.items() if key is not None}


def export(**variables: str) -> None:
    """Set variables that libraries read on import and that child processes inherit."""
    os.environ.update(variables)


def child_environment(**variables: str) -> dict[str, str]:
    """Return the environment of a child process: CaMVo's defaults, and ``variables``."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_OWN)}
    return inherited | variables


def _variable_error(error: ValidationError) -> ConfigError:
    """Return the mistake under the name of its environment variable."""
    mistake = config_error(error, "environment", Environment, joint=": ")
    name = str(error.errors()[0]["loc"][0]).upper()
    named = name.startswith(("BASIC_AUTH", "LABEL_STUDIO", "PROMETHEUS", "OTEL", "OTLP"))
    where = name if named else f"CAMVO_{name.removeprefix('CAMVO_')}"
    return ConfigError(mistake.message, where=where, fix=mistake.fix)
