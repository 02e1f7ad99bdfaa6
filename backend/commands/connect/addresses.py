"""The addresses of Label Studio and of CaMVo's server, from the options and the environment."""

from __future__ import annotations

from urllib.parse import urlsplit

from backend.commands.connect.backend_client import default_url
from backend.errors import ConfigError
from backend.label_studio.client import Client
from backend.settings import Environment


def label_studio_client(option: str | None, environment: Environment) -> Client:
    """Return a client for Label Studio, with the API key of the environment.

    Raises:
        ConfigError: the address or the API key is missing or invalid.
    """
    url = option or environment.label_studio_url
    if url is None:
        raise ConfigError(
            "Label Studio's address is missing",
            where="--label-studio",
            fix="give it, e.g. http://host:8080, or set LABEL_STUDIO_URL",
        )
    key = environment.label_studio_api_key
    if key is None:
        raise ConfigError(
            "the API key is missing",
            where="LABEL_STUDIO_API_KEY",
            fix="set it to a token from Label Studio's Account & Settings; docs/label_studio.md says what to "
            "do by hand without one",
        )
    return Client(_checked_url(url, "--label-studio"), key, environment.label_studio_public_url)


def backend_url(option: str | None, environment: Environment) -> str:
    """Return the URL at which Label Studio reaches the server.

    Raises:
        ConfigError: the address is invalid or contains credentials.
    """
    return default_url(environment) if option is None else _checked_url(option, "--backend-url")


def _checked_url(url: str, option: str) -> str:
    """Check an address and return it without trailing slashes."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and not parts.query
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError(
            "must be an http(s) address without a query", where=option, fix="give e.g. http://host:8080"
        )
    if parts.username is not None:
        raise ConfigError(
            "an address must not contain credentials",
            where=option,
            fix="remove them and set BASIC_AUTH_USER and BASIC_AUTH_PASS, or LABEL_STUDIO_API_KEY",
        )
    return url.rstrip("/")


def require_webhook_secret(environment: Environment) -> None:
    """Refuse to connect a webhook that the server would reject.

    Raises:
        ConfigError: basic auth is set, but no webhook secret.
    """
    if environment.basic_auth_user is not None and environment.webhook_secret is None:
        raise ConfigError(
            "Label Studio's webhooks carry no basic auth, so the server would refuse every human answer",
            where="CAMVO_WEBHOOK_SECRET",
            fix="set it to the same value here and for the server",
        )
