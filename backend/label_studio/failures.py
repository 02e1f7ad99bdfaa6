"""What can go wrong with Label Studio's API, as errors that say what to do; none of them holds the key."""

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

_LONGEST = 400
_PRIVATE = re.compile(r"reserved network address|resolves to a (?:private|reserved|local)", re.IGNORECASE)

_VARIABLES = {"/api/ml": "ML_BLOCK_LOCAL_IP", "/api/webhooks": "SSRF_PROTECTION_ENABLED"}
"""Of Label Studio's environment: which one refuses private addresses, by what was asked."""

_QUOTING = ("/import/predictions", "/api/predictions/")
"""Where a refusal quotes the labels that were sent, which have no place in a message."""


@contextmanager
def failures(url: str, path: str = "") -> Iterator[None]:
    """Turn what httpx and label-studio-sdk raise into errors of ours."""
    from label_studio_sdk.core.api_error import ApiError  # noqa: PLC0415 - the help must not wait for it

    where = f"{url}{path}"
    try:
        yield
    except ApiError as error:  # the exchange of a personal access token, which the SDK does on its own
        raise _refused(where, path, error.status_code or 0, error.body) from None
    except httpx.TimeoutException:
        raise LabelStudioUnreachableError(
            "Label Studio does not answer in time", where=where, fix="see whether it is busy, and try again"
        ) from None
    except (httpx.TransportError, httpx.InvalidURL) as error:
        raise LabelStudioUnreachableError(
            f"Label Studio cannot be reached: {error}", where=url, fix="start it, or correct its address"
        ) from None
    except json.JSONDecodeError:
        raise answer_error(url, path) from None


def answer_error(url: str, path: str, response: httpx.Response | None = None) -> LabelStudioError:
    """The error for an answer that is no success, or for one that is not Label Studio's."""
    where = f"{url}{path}"
    if response is None:
        return LabelStudioError(
            "what answers there is not Label Studio", where=where, fix="correct its address"
        )
    if response.is_redirect:
        return LabelStudioError(
            f"it sends us on to {response.headers.get('location')}", where=where, fix="give that address"
        )
    try:
        body = response.json()
    except ValueError:
        body = None
    return _refused(where, path, response.status_code, body)


def _refused(where: str, path: str, status: int, body: Any) -> LabelStudioError:
    reason = "" if path.endswith(_QUOTING) else _reason(body)
    said = f"{status} {reason}" if reason else f"status {status}"
    if status == httpx.codes.UNAUTHORIZED:
        fix = "set LABEL_STUDIO_API_KEY to a token from Account & Settings"
        if "legacy" in reason:
            fix = "use a personal access token, or allow legacy tokens in the organisation's settings"
        return LabelStudioKeyError(f"Label Studio refuses the key: {said}", where=where, fix=fix)
    if status == httpx.codes.FORBIDDEN:
        return _forbidden(where, path, reason)
    if status == httpx.codes.NOT_FOUND:
        return LabelStudioMissingError(
            f"Label Studio does not have it: {said}",
            where=where,
            fix="check the project's number, and that the key's owner is a member",
        )
    return LabelStudioError(f"Label Studio refuses: {said}", where=where, fix="see its log")


def _forbidden(where: str, path: str, reason: str) -> LabelStudioError:
    if not _PRIVATE.search(reason):
        return LabelStudioKeyError(
            f"the key's owner may not do this: {reason}",
            where=where,
            fix="use the key of a project's manager",
        )
    named = next((name for start, name in _VARIABLES.items() if path.startswith(start)), "ML_BLOCK_LOCAL_IP")
    return PrivateAddressError(
        f"Label Studio does not call private addresses ({named} is on): {reason}",
        where=where,
        fix="start Label Studio with both ML_BLOCK_LOCAL_IP=false and SSRF_PROTECTION_ENABLED=false",
    )


def _reason(body: Any) -> str:
    """Label Studio's own words, without its links and on one line."""
    if not isinstance(body, dict):
        return ""
    listed = body.get("validation_errors")
    parts = [part for value in listed.values() for part in _texts(value)] if isinstance(listed, dict) else []
    text = " ".join(parts) or str(body.get("detail") or "")
    text = " ".join(re.sub(r"<[^>]*>", "", text).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _texts(value: Any) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]
