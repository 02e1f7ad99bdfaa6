"""Our errors for litellm's exceptions.

A provider's message can echo the prompt or the key, so our errors contain only the class and the HTTP status.
Classes are looked up by name along the inheritance, so this module does not import litellm.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Mapping

from backend.errors import (
    BadAnswerError,
    ContextTooLongError,
    KeyRejectedError,
    ModelError,
    ModelTimeoutError,
    RateLimitedError,
    RefusedError,
    RejectedError,
    UnavailableError,
)

BY_CLASS: dict[str, type[ModelError]] = {
    "APIConnectionError": UnavailableError,
    "APIError": UnavailableError,
    "APIResponseValidationError": UnavailableError,
    "APIStatusError": UnavailableError,
    "AuthenticationError": KeyRejectedError,
    "BadGatewayError": UnavailableError,
    "BadRequestError": RejectedError,
    "BlockedPiiEntityError": RefusedError,
    "BudgetExceededError": RejectedError,
    "ContentPolicyViolationError": RefusedError,
    "ContextWindowExceededError": ContextTooLongError,
    "GuardrailRaisedException": RefusedError,
    "ImageFetchError": RejectedError,
    "InternalServerError": UnavailableError,
    "InvalidRequestError": RejectedError,
    "JSONSchemaValidationError": BadAnswerError,
    "LiteLLMUnknownProvider": RejectedError,
    "MidStreamFallbackError": UnavailableError,
    "MockException": UnavailableError,
    "ModelNotMappedError": RejectedError,
    "ModifyResponseException": RefusedError,
    "NotFoundError": RejectedError,
    "OpenAIError": UnavailableError,
    "PaymentRequiredError": KeyRejectedError,
    "PermissionDeniedError": KeyRejectedError,
    "RateLimitError": RateLimitedError,
    "RejectedRequestError": RejectedError,
    "SensitiveDataRouteException": RefusedError,
    "ServiceUnavailableError": UnavailableError,
    "Timeout": ModelTimeoutError,
    "TimeoutError": ModelTimeoutError,
    "APITimeoutError": ModelTimeoutError,
    "UnprocessableEntityError": RejectedError,
    "UnsupportedParamsError": RejectedError,
    "VectorStoreSearchError": RejectedError,
}
"""Class name → our error, for all of litellm's exceptions and the builtin ones that a call can raise."""

_BY_CODE: dict[str, type[ModelError]] = {
    "content_filter": RefusedError,
    "content_policy_violation": RefusedError,
    "context_length_exceeded": ContextTooLongError,
    "insufficient_quota": KeyRejectedError,  # sent as a 429, but waiting brings no credit
    "invalid_api_key": KeyRejectedError,
}
"""OpenAI's error codes → our error; a code is more precise than the class."""

_BY_STATUS: dict[int, type[ModelError]] = {
    400: RejectedError,
    401: KeyRejectedError,
    402: KeyRejectedError,
    403: KeyRejectedError,
    404: RejectedError,
    405: RejectedError,
    408: ModelTimeoutError,
    413: ContextTooLongError,
    422: RejectedError,
    429: RateLimitedError,
}

_OVERLOADED = frozenset({503, 529})
"""Statuses that say nothing about the request, but that the provider takes none at the moment."""

_EMBEDDED_FIX = "embedded voters only answer questions with a list of labels: name other models in camvo.yaml"

_MESSAGES: dict[type[ModelError], str] = {
    ModelTimeoutError: "gave no answer in time",
    RateLimitedError: "refused for its quota, or asks to wait",
    UnavailableError: "is unavailable",
    KeyRejectedError: "does not accept the key, or none is set",
    RejectedError: "does not accept the request",
    ContextTooLongError: "has a context window shorter than the prompt",
    RefusedError: "refused",
    BadAnswerError: "gave an answer that cannot be read",
}


# for a key that was never set, litellm raises an InternalServerError or an APIConnectionError
_NO_KEY = re.compile(
    r"(?:missing|no|pass|set|need)\b.{0,60}(?:api[ _]?key|credentials)"
    r"|(?:api[ _]?key|credentials).{0,60}(?:missing|required|not set|not found|not provided|must be set)",
    re.IGNORECASE | re.DOTALL,
)
_NO_CONNECTION = {"ConnectTimeout", "ConnectionTimeoutError"}
"""The classes of httpx and aiohttp for a connection that did not come about in time."""

_LONGEST_CHAIN = 20
"""Causes of an error that are looked at."""

_HEAD = 300  # characters; the rest is a traceback or an echo of the request


def model_error(error: BaseException, model: str) -> ModelError:
    """Return our error for an exception of a litellm call; unknown classes become ``UnavailableError``.

    Args:
        error: the exception.
        model: the model's name in the pool.
    """
    if (reason := _unreachable(error)) is not None:
        unreachable = UnavailableError(
            f"cannot be reached: {reason}",
            where=f"model {model}",
            fix="start its server, or correct api_base and check the network",
        )
        unreachable.reason, unreachable.certain = reason, True
        return unreachable
    status, code = _status_of(error), _code_of(error)
    kind = _BY_CODE.get(code) or _kind(error, status)
    detail = type(error).__name__ + (f", HTTP {status}" if status else "") + (f", {code}" if code else "")
    embedded = status == 400 and getattr(error, "llm_provider", None) == "embedded"
    fix = _EMBEDDED_FIX if embedded else kind.cure
    failure = kind(f"{_MESSAGES[kind]}: {detail}", where=f"model {model}", fix=fix)
    failure.reason = (
        "no answer in time" if kind is ModelTimeoutError else f"HTTP {status}" if status else detail
    )
    failure.certain = status in _OVERLOADED
    return failure


def line_error(status: int | None, code: str | None, model: str) -> ModelError:
    """Return our error for one request of a batch, from its HTTP status and its provider's code.

    Args:
        status: the HTTP status; ``None`` if the provider says none.
        code: the provider's code; ``None`` if it says none.
        model: the model's name in the pool.
    """
    kind = _BY_CODE.get(code or "") or _BY_STATUS.get(status or 0, UnavailableError)
    detail = f": HTTP {status}" if status else ""
    return kind(_MESSAGES[kind] + detail, where=f"model {model}", fix=kind.cure)


def _unreachable(error: BaseException) -> str | None:
    """Return why no connection to the provider came about; ``None`` if one did.

    litellm reports it as HTTP 500, although nothing answered. Only the chain of causes shows it.
    """
    cause: BaseException | None = error
    for _ in range(_LONGEST_CHAIN):
        if isinstance(cause, ConnectionRefusedError):
            return "connection refused"
        if isinstance(cause, socket.gaierror):
            return "its host name is unknown"
        if isinstance(cause, ssl.SSLError):
            return "the TLS handshake failed"
        if type(cause).__name__ in _NO_CONNECTION:
            return "no connection in time"
        if cause is None:
            return None
        cause = cause.__cause__ or cause.__context__
    return None


def _kind(error: BaseException, status: int | None) -> type[ModelError]:
    names = (ancestor.__name__ for ancestor in type(error).__mro__)
    kind = next((BY_CLASS[name] for name in names if name in BY_CLASS), UnavailableError)
    if kind is not UnavailableError:
        return kind
    if status in _BY_STATUS:  # litellm has no specific class for 402, 403 and 413
        return _BY_STATUS[status]
    return KeyRejectedError if _NO_KEY.search(str(error)[:_HEAD]) else kind


def _code_of(error: BaseException) -> str:
    """Return OpenAI's code in the provider's response if it is in ``_BY_CODE``, else an empty string."""
    body = getattr(error, "body", None)
    code = body.get("code") if isinstance(body, Mapping) else None
    return code if isinstance(code, str) and code in _BY_CODE else ""


def _status_of(error: BaseException) -> int | None:
    """Return the HTTP status of the provider's response, if litellm reports it."""
    try:
        status = int(getattr(error, "status_code", None) or 0)
    except (TypeError, ValueError):
        return None
    return status or None
