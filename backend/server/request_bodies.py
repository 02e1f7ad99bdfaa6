"""JSON bodies of Flask requests, without the values that no database stores."""

from __future__ import annotations

import json
import math
from typing import Any

from flask import Request

from backend.errors import BadBodyError

_DEPTH = 100
"""Levels of nesting that are read; Label Studio's payloads have fewer than ten beside a task's own data."""

_KEY = "camvo.json"


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
    """The JSON value in a request's body, read once; ``None`` if it is malformed or nested too deeply.

    NUL and lone surrogates in texts become U+FFFD, since PostgreSQL stores neither and UTF-8 no surrogates.
    Numbers that are not finite become ``None``: Python's JSON has them, SQL's has not.
    """
    if _KEY not in request.environ:
        request.environ[_KEY] = _read(request.get_data())
    return request.environ[_KEY]


def _read(data: bytes) -> Any:
    try:
        return _storable(
            json.loads(data.decode(), parse_constant=lambda _: None, parse_float=_finite), _DEPTH
        )
    except (ValueError, RecursionError):
        return None


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


def _storable(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return _storable_text(value)
    if isinstance(value, dict | list) and depth == 0:
        raise ValueError("nested too deeply")
    if isinstance(value, dict):
        return {_storable_text(key): _storable(entry, depth - 1) for key, entry in value.items()}
    return [_storable(entry, depth - 1) for entry in value] if isinstance(value, list) else value


def _storable_text(text: str) -> str:
    if not text.isascii():
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", "\ufffd")
