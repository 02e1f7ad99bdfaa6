"""Prompts with images: token count, cost and messages."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from backend.errors import ModelError
from backend.models import Pool
from backend.models import model as litellm_info
from backend.models.model import _IMAGE_TOKENS
from backend.questions.prompts.messages import text_part
from backend.settings import ModelSettings
from backend.testing import OpenAIServer, Reply

URL = "https://pictures.example/cat.jpg"
WORDS = [{"role": "system", "content": "Look."}, {"role": "user", "content": "What is it?"}]


def image(address: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": address}}


def with_image(address: str = URL) -> list[dict[str, Any]]:
    return [
        WORDS[0],
        {
            "role": "user",
            "content": [text_part("What is it?"), image(address)],
        },
    ]


def pool(api_base: str = "http://127.0.0.1:1", **settings: Any) -> Pool:
    entry = {"name": "m", "model": "openai/m", "input_price": 1.0, "output_price": 2.0, "api_base": api_base}
    return Pool([ModelSettings.model_validate({**entry, **settings})], keys={"m": "none"})


@pytest.mark.parametrize(
    "address", [URL, "http://127.0.0.1:1/never-fetched.png", "data:image/png;base64,QUJD" * 99]
)
def test_an_image_counts_as_so_many_tokens_wherever_it_is(address: str) -> None:
    assert pool()["m"].model.count(with_image(address)) == pool()["m"].model.count(WORDS) + _IMAGE_TOKENS


def test_an_image_raises_what_is_expected_and_what_is_reserved() -> None:
    assert pool()["m"].model.cost(with_image()) > pool()["m"].model.cost(WORDS)
    assert (
        pool()["m"].model.ceiling(with_image(), None)
        > pool()["m"].model.ceiling(WORDS, None) + _IMAGE_TOKENS * 1e-6
    )


def test_another_image_is_another_question() -> None:
    models = pool()
    prints = {models["m"].model.fingerprint(with_image(address), None) for address in (URL, f"{URL}?2")}
    assert len(prints) == 2


def test_a_model_that_takes_no_system_message_gets_the_image_after_the_text() -> None:
    with OpenAIServer(lambda _: Reply.says("a cat")) as server:
        asyncio.run(pool(server.url, system_message=False)["m"].attempt(with_image(), None, 10.0))
        (message,) = server.requests[0].body["messages"]
    assert message == {
        "role": "user",
        "content": [text_part("Look.\n\nWhat is it?"), image(URL)],
    }


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
    assert pool(model=model, vision=vision)["m"].model.sees == sees


# -- nothing is fetched


class Listener:
    """A server that answers every request with an image and counts the connections."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.connections = 0
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            with connection:
                if self._closing:
                    return
                self.connections += 1
                head = b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 3\r\n\r\n"
                with contextlib.suppress(OSError):
                    connection.recv(1000)
                    connection.sendall(head + b"PNG")

    _closing = False

    def close(self) -> None:
        self._closing = True
        socket.create_connection(self._socket.getsockname()).close()
        self._thread.join()
        self._socket.close()


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    """Without the switches of ``litellm_info``, litellm would be allowed to fetch from it."""
    listener = Listener()
    monkeypatch.setattr(litellm_info.litellm(), "user_url_allowed_hosts", [listener.host])
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "none")
    monkeypatch.setenv("AWS_REGION_NAME", "nowhere-1")
    yield listener
    listener.close()


@pytest.fixture
def vertex_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let litellm believe that it has a token of Vertex AI, which it asks for before it looks at images."""
    litellm_info.litellm()
    from litellm.llms.vertex_ai.vertex_llm_base import VertexBase  # noqa: PLC0415

    async def token(*_: Any, **__: Any) -> tuple[str, str]:
        return "token", "project"

    monkeypatch.setattr(VertexBase, "_ensure_access_token_async", token)
    monkeypatch.setattr(VertexBase, "_ensure_access_token", lambda *_, **__: ("token", "project"))


FETCHED = [
    "gemini/gemini-2.0-flash",
    "vertex_ai/gemini-2.0-flash",
    "vertex_ai/claude-3-5-sonnet@20240620",
    "bedrock/anthropic.claude-3-sonnet-20240229-v1:0",
    "bedrock/invoke/anthropic.claude-3-sonnet-20240229-v1:0",
    "bedrock/converse/us.amazon.nova-lite-v1:0",
    "ollama/llava",
    "ollama_chat/llava",
    "snowflake/claude-3-5-sonnet",
]
"""Models for which litellm would download images, and one of Ollama, which takes images as data only."""


@pytest.mark.usefixtures("vertex_token")
@pytest.mark.parametrize("address", ["http://{}/a.png", "https://{}/a.png", "https://{}/a"])
@pytest.mark.parametrize("model", [*FETCHED, "anthropic/claude-3-5-sonnet-20241022", "openai/gpt-4o"])
def test_no_image_is_fetched_for_any_provider(listener: Listener, model: str, address: str) -> None:
    with OpenAIServer(lambda _: Reply.says("a cat")) as server:
        bedrock = {"aws_bedrock_runtime_endpoint": server.url} if model.startswith("bedrock") else {}
        models = pool(server.url, model=model, timeout=5, **bedrock)
        messages = with_image(address.format(listener.host))
        with contextlib.suppress(ModelError):
            asyncio.run(models["m"].attempt(messages, None, 10.0))
    assert listener.connections == 0


@pytest.mark.parametrize("model", FETCHED)
def test_models_that_open_no_addresses_are_shown_images_as_data_only(model: str) -> None:
    models = pool(model=model, vision=True)
    assert not models["m"].model.can_be_shown([URL])
    assert not models["m"].model.can_be_shown(["data:image/png;base64,QUJD", URL])
    assert models["m"].model.can_be_shown(["data:image/png;base64,QUJD"])


def test_anthropic_opens_addresses_with_https_alone() -> None:
    models = pool(model="anthropic/claude-3-5-sonnet-20241022", vision=True)
    assert models["m"].model.can_be_shown([URL])
    assert not models["m"].model.can_be_shown([URL.replace("https", "http")])


def test_other_models_with_vision_are_shown_any_address() -> None:
    assert pool(model="openai/gpt-4o")["m"].model.can_be_shown([URL, "http://pictures.example/dog.jpg"])
    assert not pool(model="openai/gpt-3.5-turbo")["m"].model.can_be_shown([])
