"""Prompts with images: token count, cost and messages."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from backend.models import Pool
from backend.models.prices import IMAGE_TOKENS
from backend.questions.prompts.message_parts import image_part, text_part
from backend.settings import ModelSettings
from backend.testing import OpenAIServer, Reply

URL = "https://pictures.example/cat.jpg"
WORDS = [{"role": "system", "content": "Look."}, {"role": "user", "content": "What is it?"}]


def with_image(address: str = URL) -> list[dict[str, Any]]:
    return [WORDS[0], {"role": "user", "content": [text_part("What is it?"), image_part(address)]}]


def pool(api_base: str = "http://127.0.0.1:1", **settings: Any) -> Pool:
    entry = {"name": "m", "model": "openai/m", "input_price": 1.0, "output_price": 2.0, "api_base": api_base}
    return Pool([ModelSettings.model_validate({**entry, **settings})])


@pytest.mark.parametrize(
    "address", [URL, "http://127.0.0.1:1/never-fetched.png", "data:image/png;base64,QUJD" * 99]
)
def test_an_image_counts_as_so_many_tokens_wherever_it_is(address: str) -> None:
    assert pool().count("m", with_image(address)) == pool().count("m", WORDS) + IMAGE_TOKENS


def test_an_image_raises_what_is_expected_and_what_is_reserved() -> None:
    assert pool().cost("m", with_image()) > pool().cost("m", WORDS)
    assert pool().ceiling("m", with_image()) > pool().ceiling("m", WORDS) + IMAGE_TOKENS * 1e-6


def test_another_image_is_another_question() -> None:
    models = pool()
    prints = {models.fingerprint("m", with_image(address), None) for address in (URL, f"{URL}?2")}
    assert len(prints) == 2


def test_a_model_that_takes_no_system_message_gets_the_image_after_the_text() -> None:
    with OpenAIServer(lambda _: Reply.says("a cat")) as server:
        asyncio.run(pool(server.url, system_message=False).attempt("m", with_image(), None, 10.0))
        (message,) = server.requests[0].body["messages"]
    assert message == {"role": "user", "content": [text_part("Look.\n\nWhat is it?"), image_part(URL)]}


@pytest.mark.parametrize(
    ("model", "vision", "sees"),
    [
        ("openai/gpt-4o", None, True),
        ("openai/gpt-3.5-turbo", None, False),
        ("openai/nobody-knows", None, False),
        ("openai/nobody-knows", True, True),
        ("openai/gpt-4o", False, False),
    ],
)
def test_whether_a_model_sees_comes_from_litellm_or_the_settings(
    model: str, vision: bool | None, sees: bool
) -> None:
    assert pool(model=model, vision=vision).sees("m") == sees
