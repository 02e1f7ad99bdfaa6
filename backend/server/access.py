"""Who may use the server: basic auth for everything, or the secret header for webhooks."""

from __future__ import annotations

import hmac
from collections.abc import Callable

from werkzeug.datastructures import Authorization

from backend.errors import UnauthorizedError
from backend.settings import WEBHOOK_HEADER, Environment

_OPEN = frozenset({"/", "/health", "/ready"})
"""Endpoints without credentials: neither Label Studio nor an orchestrator sends any to a probe."""

WEBHOOK = "/webhook"


def may_enter(path: str, header: Callable[[str], str | None], environment: Environment) -> bool | None:
    """Whether a request with this head is allowed, whatever its body."""
    if path in _OPEN or _has_credentials(header("Authorization"), environment):
        return True
    if path == WEBHOOK and environment.webhook_secret is not None:
        if _equal(header(WEBHOOK_HEADER) or "", environment.webhook_secret.get_secret_value()):
            return True
        return None if environment.basic_auth_user is None else False
    return environment.basic_auth_user is None


def no_entry(path: str) -> UnauthorizedError:
    """The refusal of a request without the right credentials."""
    return UnauthorizedError(
        "credentials are missing or wrong",
        where=path,
        fix=f"use basic auth, or for {WEBHOOK} the header {WEBHOOK_HEADER}",
    )


def _has_credentials(header: str | None, environment: Environment) -> bool:
    user, password = environment.basic_auth_user, environment.basic_auth_pass
    if user is None or password is None:
        return False
    try:
        sent = Authorization.from_header(header)
    except ValueError:  # base64 of something other than ASCII
        return False
    if sent is None or sent.type != "basic":
        return False
    # Both are always compared, so that the time taken does not tell which one is wrong.
    right_user = _equal(sent.username or "", user)
    right_password = _equal(sent.password or "", password.get_secret_value())
    return right_user and right_password


def _equal(sent: str, expected: str) -> bool:
    return hmac.compare_digest(sent.encode(), expected.encode())
