"""Refusals that need no thread: the same JSON as the application's, as bytes for the socket."""

from __future__ import annotations

import json
from http import HTTPStatus

from backend.errors import BusyError, RequestError


def refusal(error: RequestError) -> bytes:
    """The response for a refused request; the connection is closed after it."""
    body = json.dumps(
        {"code": error.code, "message": error.message, "where": error.where, "fix": error.fix}
    ).encode()
    header = [
        f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    if isinstance(error, BusyError):
        header.append(f"Retry-After: {error.retry_after}")
    return "\r\n".join([*header, "", ""]).encode() + body
