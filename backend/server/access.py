"""Who may pass: basic auth, and the header that webhooks prove themselves by."""

from __future__ import annotations

import hmac

from flask import Request

from backend.label_studio import payloads, webhooks
from backend.settings import Environment


def is_authorised(request: Request, environment: Environment) -> bool:
    """Whether the request may pass.

    Label Studio sends basic auth with its ML calls and with START_TRAINING, never with the other webhooks:
    those prove themselves by the secret header, once a secret is configured.
    """
    if _has_credentials(request, environment) or (
        request.path == "/webhook" and _knows_secret(request, environment)
    ):
        return True
    if environment.basic_auth_user is not None:
        return False
    guarded = request.path == "/webhook" and environment.webhook_secret is not None
    return not guarded or _is_training(request)


def _has_credentials(request: Request, environment: Environment) -> bool:
    user, password, given = environment.basic_auth_user, environment.basic_auth_pass, request.authorization
    if user is None or password is None or given is None or given.type != "basic":
        return False
    # Both are compared whatever the first says, so that the time taken tells nothing.
    right_user = _same(given.username or "", user)
    right_password = _same(given.password or "", password.get_secret_value())
    return right_user and right_password


def _knows_secret(request: Request, environment: Environment) -> bool:
    secret = environment.webhook_secret
    return secret is not None and _same(
        request.headers.get(payloads.WEBHOOK_HEADER, ""), secret.get_secret_value()
    )


def _is_training(request: Request) -> bool:
    body = payloads.parsed(request)
    return isinstance(body, dict) and body.get("action") == webhooks.START_TRAINING


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())
