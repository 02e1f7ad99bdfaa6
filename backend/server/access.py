"""Authentication: basic auth, and the secret header of webhooks."""

from __future__ import annotations

import hmac

from flask import Request

from backend.label_studio import webhooks
from backend.server import request_bodies
from backend.settings import Environment


def is_authorised(request: Request, environment: Environment) -> bool:
    """Whether a request may be served.

    Label Studio sends basic auth with its ML calls and with START_TRAINING, but not with other webhooks.
    Those are authenticated by the secret header, if a secret is configured.
    """
    if _has_credentials(request, environment) or (
        request.path == "/webhook" and _has_secret(request, environment)
    ):
        return True
    if environment.basic_auth_user is not None:
        return False
    guarded = request.path == "/webhook" and environment.webhook_secret is not None
    return not guarded or _is_training(request)


def _has_credentials(request: Request, environment: Environment) -> bool:
    user, password = environment.basic_auth_user, environment.basic_auth_pass
    if user is None or password is None:
        return False
    try:
        sent = request.authorization
    except ValueError:  # base64 of something other than ASCII
        return False
    if sent is None or sent.type != "basic":
        return False
    # Both are always compared, so that the time taken does not tell which one is wrong.
    right_user = _equal(sent.username or "", user)
    right_password = _equal(sent.password or "", password.get_secret_value())
    return right_user and right_password


def _has_secret(request: Request, environment: Environment) -> bool:
    secret = environment.webhook_secret
    return secret is not None and _equal(
        request.headers.get(webhooks.WEBHOOK_HEADER, ""), secret.get_secret_value()
    )


def _is_training(request: Request) -> bool:
    body = request_bodies.json_value(request)
    return isinstance(body, dict) and body.get("action") == webhooks.START_TRAINING


def _equal(sent: str, expected: str) -> bool:
    return hmac.compare_digest(sent.encode(), expected.encode())
