"""Files of results that are damaged: no line makes another one unreadable, and none raises an error."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from backend.models.batches.anthropic_batches import AnthropicBatches
from backend.models.batches.openai_batches import OpenAIBatches
from backend.models.batches.provider import LineResult, ProviderBatch
from backend.settings import ModelSettings

SETTINGS = ModelSettings(name="m", model="openai/x", input_price=1, output_price=1)
BATCH = ProviderBatch("b", ended=True, created_at=0.0, files={"output": "f"})


class Fuzzed(OpenAIBatches):
    """OpenAI's adapter with a file in memory."""

    content = b""

    async def _call(self, function: str, **arguments: Any) -> Any:
        return SimpleNamespace(content=self.content)


class FuzzedMessages(AnthropicBatches):
    """Anthropic's adapter with a file in memory."""

    content = b""

    async def _lines(self, batch: ProviderBatch) -> AsyncIterator[bytes]:
        for line in self.content.split(b"\n"):
            if line.strip():
                yield line


def of_openai(name: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": '{"q": "yes"}'}
    body = {
        "id": "c",
        "model": "x",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    }
    return {"custom_id": name, "response": {"status_code": 200, "body": body}, "error": None}


def of_anthropic(name: str) -> dict[str, Any]:
    message = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "x",
        "content": [{"type": "text", "text": '{"q": "yes"}'}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 3, "output_tokens": 2},
    }
    return {"custom_id": name, "result": {"type": "succeeded", "message": message}}


ODD: list[Any] = [None, "words", 7, [], {}, [{}], {"code": 1}, True, -1.5, "\u2028", [["x"]]]


def mutated(line: dict[str, Any], rng: random.Random) -> bytes:
    """A line with one value replaced or left out, or with bytes lost, added or repeated."""
    line = json.loads(json.dumps(line))
    if rng.random() < 0.7:
        place: Any = line
        while True:
            keys = [*place] if isinstance(place, dict) else [*range(len(place))]
            key = rng.choice(keys)
            if isinstance(place[key], dict | list) and place[key] and rng.random() < 0.7:
                place = place[key]
                continue
            if rng.random() < 0.3:
                del place[key]
            else:
                place[key] = rng.choice(ODD)
            return json.dumps(line, ensure_ascii=False).encode()
    content = bytearray(json.dumps(line).encode())
    start = rng.randrange(len(content))
    replacement = rng.choice([b"", b"\xff", b'"', b"}", b"{", bytes(content[start : start + 20])])
    content[start : start + rng.randrange(8)] = replacement
    return bytes(content).replace(b"\n", b" ")


def read(adapter: Fuzzed | FuzzedMessages) -> list[LineResult]:
    async def every() -> list[LineResult]:
        return [result async for result in adapter.results(BATCH)]

    return asyncio.run(every())


@pytest.mark.parametrize(
    ("adapter", "good", "count"),
    [
        (Fuzzed(SETTINGS, "openai", None), of_openai, 10_000),
        (FuzzedMessages(SETTINGS, None), of_anthropic, 10_000),
    ],
)
def test_a_mutated_line_costs_no_other_line(adapter: Fuzzed | FuzzedMessages, good: Any, count: int) -> None:
    rng = random.Random(7)  # noqa: S311 - a repeatable run
    whole = [json.dumps(good(name)).encode() for name in ("first", "last")]
    for _ in range(count // 50):
        bad = [mutated(good("bad"), rng) for _ in range(50)]
        adapter.content = b"\n".join([whole[0], *bad, whole[1]])
        answered = {result.custom_id for result in read(adapter) if result.response is not None}
        assert {"first", "last"} <= answered
