"""Every exception of litellm becomes one of our errors."""

from __future__ import annotations

import asyncio
import inspect

import pytest

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
from backend.models.failures import _BY_CLASS, model_error
from backend.models.model import litellm


def litellm_classes() -> dict[str, type[Exception]]:
    exceptions = litellm().exceptions
    members = inspect.getmembers(exceptions, inspect.isclass)
    return {name: kind for name, kind in members if issubclass(kind, Exception)}


def bare(kind: type[Exception]) -> Exception:
    """Return an instance without the many arguments of litellm's constructors."""
    error = kind.__new__(kind)
    vars(error).update(message="", num_retries=None, max_retries=None, original_exception=None)
    return error


def test_every_class_of_litellm_or_a_class_that_says_what_went_wrong_above_it_is_in_the_table() -> None:
    telling = set(_BY_CLASS) - {"APIError", "APIStatusError", "OpenAIError"}
    assert len(litellm_classes()) > 25
    for name, kind in litellm_classes().items():
        assert name in _BY_CLASS or telling & {base.__name__ for base in kind.__mro__}, name


def test_every_exported_class_of_litellm_becomes_one_of_ours() -> None:
    for kind in litellm_classes().values():
        error = model_error(bare(kind), "m")
        assert type(error) is not ModelError
        assert error.where == "model m"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Timeout", ModelTimeoutError),
        ("RateLimitError", RateLimitedError),
        ("ServiceUnavailableError", UnavailableError),
        ("AuthenticationError", KeyRejectedError),
        ("NotFoundError", RejectedError),
        ("ContextWindowExceededError", ContextTooLongError),  # a BadRequestError, too
        ("ContentPolicyViolationError", RefusedError),  # the same
        ("JSONSchemaValidationError", BadAnswerError),
    ],
)
def test_the_nearest_class_decides(name: str, expected: type[ModelError]) -> None:
    kind = litellm_classes()[name]
    assert type(model_error(bare(kind), "m")) is expected


def test_a_timeout_of_asyncio_is_a_timeout() -> None:
    error = asyncio.TimeoutError()  # noqa: UP041 - what people call it
    assert isinstance(model_error(error, "m"), ModelTimeoutError)


@pytest.mark.parametrize("error", [ValueError("x"), AttributeError("x"), KeyError("x"), OSError("x")])
def test_an_exception_nobody_expected_is_unavailable_and_keeps_its_text_to_itself(error: Exception) -> None:
    secret = type(error)("sk-secret and the text of a task")
    converted = model_error(secret, "m")
    assert type(converted) is UnavailableError
    assert "secret" not in str(converted)
    assert type(error).__name__ in str(converted)


@pytest.mark.parametrize(
    "message",
    [
        "Missing credentials. Please pass an `api_key`, `workload_identity`, or set the `OPENAI_API_KEY`",
        "Missing Gemini API key. Set the GEMINI_API_KEY",
        "The api_key client option must be set either by passing api_key to the client",
        "Mistral API key is required. Set MISTRAL_API_KEY or pass api_key.",
    ],
)
def test_a_missing_key_is_recognised_whatever_class_it_comes_as(message: str) -> None:
    assert isinstance(model_error(ValueError(message), "m"), KeyRejectedError)


@pytest.mark.parametrize("message", ["Connection error.", "Received: '<html>down</html>'", "overloaded"])
def test_other_trouble_is_not_taken_for_a_missing_key(message: str) -> None:
    assert isinstance(model_error(ValueError(message), "m"), UnavailableError)


def test_only_passing_trouble_is_worth_another_try() -> None:
    kinds = (RateLimitedError, UnavailableError)
    assert {kind for kind in set(_BY_CLASS.values()) if kind.retry} == set(kinds)
