"""What the command line and the environment say about where things are, checked before anything is asked."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from backend.commands.connect.server import default_url
from backend.errors import ConfigError
from backend.label_studio.client import Client
from backend.settings import Environment


def environment(config: Path | None) -> Environment:
    """The environment, with the ``camvo.yaml`` of the command line in the place of its own."""
    found = Environment()
    return found if config is None else found.model_copy(update={"config": config})


def client(label_studio: str | None, environment: Environment) -> Client:
    """Label Studio, with the key of the environment.

    Raises:
        ConfigError: its address or the key is missing, or cannot be used.
    """
    url = label_studio or environment.label_studio_url
    if url is None:
        raise ConfigError(
            "Label Studio's address is missing",
            where="--label-studio",
            fix="give it, or set LABEL_STUDIO_URL",
        )
    key = environment.label_studio_api_key
    if key is None:
        raise ConfigError(
            "the key is missing",
            where="LABEL_STUDIO_API_KEY",
            fix="set it to a token from Label Studio's Account & Settings; without one, docs/label_studio.md "
            "says what to do by hand",
        )
    return Client(_address(url, "--label-studio"), key)


def backend_url(given: str | None, environment: Environment) -> str:
    """Where Label Studio reaches the server.

    Raises:
        ConfigError: no address, or one with credentials.
    """
    return default_url(environment) if given is None else _address(given, "--backend-url")


def _address(url: str, option: str) -> str:
    """An address without a slash at its end."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and not parts.query
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError("this is no address", where=option, fix="give one like http://host:port")
    if parts.username is not None:
        raise ConfigError(
            "credentials do not belong in an address",
            where=option,
            fix="set BASIC_AUTH_USER and BASIC_AUTH_PASS, or LABEL_STUDIO_API_KEY",
        )
    return url.rstrip("/")


def require_secret(environment: Environment) -> None:
    """Refuse to connect a webhook that the server would turn away.

    Raises:
        ConfigError: basic auth without a secret for webhooks.
    """
    if environment.basic_auth_user is not None and environment.webhook_secret is None:
        raise ConfigError(
            "Label Studio's webhooks carry no basic auth: every human answer would be refused",
            where="CAMVO_WEBHOOK_SECRET",
            fix="set it to the same value here and at the server",
        )
