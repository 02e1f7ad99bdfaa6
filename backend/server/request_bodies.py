"""JSON bodies of Flask requests."""

from __future__ import annotations

from typing import Any

from flask import Request

from backend.errors import BadBodyError


def json_object(request: Request) -> dict[str, Any]:
    """The JSON object in a request's body.

    Raises:
        BadBodyError: the body is not a JSON object.
    """
    body = json_value(request)
    if not isinstance(body, dict):
        raise BadBodyError("the body is not a JSON object", where="body", fix="send what Label Studio sends")
    return body


def json_value(request: Request) -> Any:
    """The JSON value in a request's body; ``None`` if it is malformed or nested too deeply for Python."""
    try:
        return request.get_json(force=True, silent=True)
    except RecursionError:
        return None
