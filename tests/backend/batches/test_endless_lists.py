"""A provider whose list of batches always has another page, and a Label Studio that repeats its tasks."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from backend.errors import LabelStudioError, UnavailableError
from backend.label_studio.client import Client
from backend.models.batches.anthropic_batches import AnthropicBatches
from backend.models.batches.openai_batches import OpenAIBatches
from backend.models.batches.provider import MOST_PAGES
from backend.settings import ModelSettings

_NOW = 2_000_000_000.0
_SETTINGS = ModelSettings(name="red", model="openai/red", input_price=1.0, output_price=1.0)


def test_openai_is_asked_for_a_bounded_number_of_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = []

    async def page(self: OpenAIBatches, name: str, **options: Any) -> object:
        pages.append(options)
        return SimpleNamespace(data=[SimpleNamespace(id="x", created_at=_NOW, metadata={})], has_more=True)

    monkeypatch.setattr(OpenAIBatches, "_call", page)
    with pytest.raises(UnavailableError, match="does not end"):
        asyncio.run(OpenAIBatches(_SETTINGS, "openai", "key").search("job", 0.0, ()))
    assert len(pages) == MOST_PAGES


def test_anthropic_is_asked_for_a_bounded_number_of_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = []

    async def page(self: AnthropicBatches, *arguments: Any, **options: Any) -> dict[str, Any]:
        pages.append(options)
        batch = {"id": "x", "created_at": "2033-05-18T03:33:20Z", "processing_status": "in_progress"}
        return {"data": [batch], "has_more": True}

    monkeypatch.setattr(AnthropicBatches, "_json", page)
    with pytest.raises(UnavailableError, match="does not end"):
        asyncio.run(AnthropicBatches(_SETTINGS, "key").search("job", 0.0, ()))
    assert len(pages) == MOST_PAGES


def test_tasks_that_are_listed_again_end_the_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Client, "__init__", lambda self: setattr(self, "url", "http://studio"))
    monkeypatch.setattr(Client, "_tasks", lambda *_, **__: {"tasks": [{"id": 1}, {"id": 2}]})
    pages = Client().pages(7)  # type: ignore[call-arg]
    assert [task["id"] for task in next(pages)] == [1, 2]
    with pytest.raises(LabelStudioError, match="again and again"):
        next(pages)
