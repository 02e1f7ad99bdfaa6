"""What is read from the headers of providers."""

from __future__ import annotations

from types import SimpleNamespace

import httpx
import pytest

from backend.models.rates.answers import (
    Allowance,
    allowances,
    error_headers,
    refusing_unit,
    response_headers,
    retry_after,
)


def failure(headers: dict[str, str], body: object = None) -> Exception:
    error = ValueError("x")
    error.litellm_response_headers = httpx.Headers(headers)  # type: ignore[attr-defined]
    error.body = body  # type: ignore[attr-defined]
    return error


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"Retry-After": "0.5"}, 0.5),
        ({"retry-after": "99999"}, 3600.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_and_bounded(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(error_headers(failure(headers))) == seconds


def test_openai_s_headers_are_read() -> None:
    response = SimpleNamespace(
        _hidden_params={
            "additional_headers": {
                "x-ratelimit-limit-requests": "600",
                "llm_provider-x-ratelimit-limit-requests": "600",
                "llm_provider-x-ratelimit-remaining-requests": "599",
                "llm_provider-x-ratelimit-reset-requests": "100ms",
                "llm_provider-x-ratelimit-limit-tokens": "90000",
                "llm_provider-x-ratelimit-remaining-tokens": "0",
                "llm_provider-x-ratelimit-reset-tokens": "1h1m2.5s",
            }
        }
    )
    assert allowances(response_headers(response)) == {
        "requests": Allowance(600.0, 599.0, 0.1),
        "tokens": Allowance(90000.0, 0.0, 3662.5),
    }


def test_anthropic_s_headers_are_read_and_their_times_are_relative_to_the_provider_s_clock() -> None:
    headers = {
        "date": "Sun, 22 Nov 2026 14:00:00 GMT",
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-reset": "2026-11-22T14:00:12Z",
    }
    assert allowances(headers) == {"requests": Allowance(50.0, 0.0, 12.0)}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-ratelimit-limit-requests": "many", "x-ratelimit-reset-requests": "soon"},
        {"x-ratelimit-limit-requests": "-1", "x-ratelimit-remaining-tokens": "nan"},
        {"anthropic-ratelimit-requests-reset": "2026-11-22T14:00:12Z"},
        {"anthropic-ratelimit-requests-reset": "2026-11-22T14:00:12", "date": "today"},
    ],
)
def test_headers_that_cannot_be_read_say_nothing(headers: dict[str, str]) -> None:
    assert allowances(headers) == {}


@pytest.mark.parametrize("response", [None, SimpleNamespace(), SimpleNamespace(_hidden_params=[])])
def test_a_response_without_headers_says_nothing(response: object) -> None:
    assert response_headers(response) == {}


def test_which_quota_refused_is_read_from_the_body_or_the_headers() -> None:
    assert refusing_unit(failure({}, {"type": "tokens"})) == "tokens"
    assert refusing_unit(failure({}, {"type": "requests"})) == "requests"
    assert refusing_unit(failure({"x-ratelimit-remaining-tokens": "0"})) == "tokens"
    assert refusing_unit(ValueError("x")) == "requests"
