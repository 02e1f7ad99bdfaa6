"""Failures of Label Studio's API, translated into errors that say what to do. None contains the key."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from backend.errors import (
    LabelStudioError,
    LabelStudioKeyError,
    LabelStudioMissingError,
    LabelStudioUnreachableError,
    PrivateAddressError,
)

_MAX_LENGTH = 400
_PRIVATE = re.compile(r"reserved network address|resolves to a (?:private|reserved|local)", re.IGNORECASE)

_VARIABLES = {"/api/ml": "ML_BLOCK_LOCAL_IP", "/api/webhooks": "SSRF_PROTECTION_ENABLED"}
"""The variable of Label Studio's environment that makes it refuse private addresses, by API path."""

_FIXES = {
    "authentication parameters": "set BASIC_AUTH_USER and BASIC_AUTH_PASS to the server's values",
    "health check failed": "start camvo serve, or give an address that Label Studio reaches as --backend-url",
}
"""What to do, by words of the reason that Label Studio gives."""

_QUOTING = ("/import/predictions", "/api/predictions/")
"""Paths whose refusals quote the labels sent, which must not appear in an error message."""


@contextmanager
def failures(url: str, path: str = "") -> Iterator[None]:
    """Translate exceptions of httpx and label-studio-sdk into errors of ``backend.errors``."""
    from label_studio_sdk.core.api_error import ApiError  # noqa: PLC0415 - slow; the help must not wait

    where = f"{url}{path}"
    try:
        yield
    except ApiError as error:  # from the SDK's exchange of the personal access token
        raise _refused(where, path, error.status_code or 0, error.body) from None
    except httpx.TimeoutException:
        raise LabelStudioUnreachableError(
            "Label Studio does not answer in time", where=where, fix="check whether it is busy, and try again"
        ) from None
    except (httpx.TransportError, httpx.InvalidURL) as error:
        raise LabelStudioUnreachableError(
            f"Label Studio cannot be reached: {error}", where=url, fix="start it, or correct the address"
        ) from None
    except json.JSONDecodeError:
        raise answer_error(url, path) from None


def answer_error(url: str, path: str, response: httpx.Response | None = None) -> LabelStudioError:
    """The error for an unsuccessful response.

    Args:
        url: Label Studio's address.
        path: the API path.
        response: the response, or ``None`` if its body does not come from Label Studio.
    """
    where = f"{url}{path}"
    if response is None:
        return LabelStudioError(
            "the server at this address is not Label Studio",
            where=where,
            fix="correct the address, with the path below which Label Studio runs, as in http://host/ls",
        )
    if response.is_redirect:
        return LabelStudioError(
            f"the server redirects to {response.headers.get('location')}",
            where=where,
            fix="use that one",
        )
    try:
        body = response.json()
    except ValueError:
        body = None
    if response.status_code == httpx.codes.NOT_FOUND and not isinstance(body, dict):
        return answer_error(url, path)  # Label Studio itself answers in JSON
    return _refused(where, path, response.status_code, body)


def _refused(where: str, path: str, status: int, body: Any) -> LabelStudioError:
    reason = "" if path.endswith(_QUOTING) else _reason(body)
    detail = f"{status} {reason}" if reason else f"status {status}"
    if status == httpx.codes.UNAUTHORIZED:
        fix = "set LABEL_STUDIO_API_KEY to a token from Account & Settings"
        if "legacy" in reason:
            fix = "use a personal access token, or allow legacy tokens in the organisation's settings"
        return LabelStudioKeyError(f"Label Studio refuses the key: {detail}", where=where, fix=fix)
    if status == httpx.codes.FORBIDDEN:
        return _forbidden(where, path, reason)
    if status == httpx.codes.NOT_FOUND:
        return LabelStudioMissingError(
            f"Label Studio does not find it: {detail}",
            where=where,
            fix="check the project's number, and that the key's owner is a member",
        )
    fixes = (fix for words, fix in _FIXES.items() if words in reason)
    fix = next(fixes, "see Label Studio's log")
    return LabelStudioError(f"Label Studio refuses: {detail}", where=where, fix=fix)


def _forbidden(where: str, path: str, reason: str) -> LabelStudioError:
    if not _PRIVATE.search(reason):
        return LabelStudioKeyError(
            f"the key's owner may not do this: {reason}",
            where=where,
            fix="use the key of a project's manager",
        )
    names = (name for prefix, name in _VARIABLES.items() if path.startswith(prefix))
    variable = next(names, "ML_BLOCK_LOCAL_IP")
    return PrivateAddressError(
        f"Label Studio does not call private addresses ({variable} is on): {reason}",
        where=where,
        fix="start Label Studio with both ML_BLOCK_LOCAL_IP=false and SSRF_PROTECTION_ENABLED=false",
    )


def _reason(body: Any) -> str:
    """The reason that Label Studio gives, without links and on one line."""
    if not isinstance(body, dict):
        return ""
    listed = body.get("validation_errors")
    parts = [part for value in listed.values() for part in _texts(value)] if isinstance(listed, dict) else []
    text = " ".join(parts) or str(body.get("detail") or "")
    text = " ".join(re.sub(r"<[^>]*>", "", text).split())
    return text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]}…"


def _texts(value: Any) -> list[str]:
    return [str(text) for text in value] if isinstance(value, list) else [str(value)]
