"""A scripted provider in place of litellm, for processes that must start in milliseconds.

Importing litellm takes three seconds and importing the embedder's libraries ten. A process under test that is
killed a hundred times replaces both: everything else of the backend runs in it unchanged, from the request to
the ledger.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from camvo.typing import Array

LABELS = ("Glad", "Sad", "Calm")


class ScriptedLitellm:
    """What CaMVo uses of the module litellm, with answers that depend on the prompt alone.

    Args:
        purchased: called with the model and the prompt's hash at every call, before the answer; returns the
            number of the purchase, which is part of the answer.
        seconds: returns how long the next answer takes.
    """

    model_cost: ClassVar[dict[str, Any]] = {}

    def __init__(self, purchased: Callable[[str, str], str], seconds: Callable[[], float]) -> None:
        self._purchased, self._seconds = purchased, seconds

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("supports_"):
            return lambda *_, **__: False
        raise AttributeError(name)

    def get_llm_provider(self, model: str, **_: object) -> tuple[str, str, None, None]:
        provider, _, name = model.partition("/")
        return name, provider, None, None

    def get_model_info(self, model: str, **_: object) -> dict[str, Any]:
        raise ValueError(f"{model} is not mapped")

    def token_counter(self, *, messages: Sequence[dict[str, Any]] = (), text: str = "", **_: object) -> int:
        return (len(text) + sum(len(str(message["content"])) for message in messages)) // 4

    def validate_environment(self, *_: object, **__: object) -> dict[str, Any]:
        return {"keys_in_environment": True, "missing_keys": []}

    async def complete(self, request: Mapping[str, Any]) -> SimpleNamespace:
        """Answer in the place of :func:`backend.models.model.complete`."""
        return await self.acompletion(**request)

    async def acompletion(self, *, model: str, messages: object, **_: object) -> SimpleNamespace:
        prompt = hashlib.sha256(json.dumps(messages, sort_keys=True).encode()).hexdigest()
        number = self._purchased(model.partition("/")[2], prompt)
        await asyncio.sleep(self._seconds())
        content = json.dumps({"mood": label_of(model, prompt), "purchase": number})
        message = SimpleNamespace(content=content, refusal=None, provider_specific_fields=None)
        return SimpleNamespace(
            choices=[SimpleNamespace(message=message, finish_reason="stop")],
            usage=SimpleNamespace(prompt_tokens=100, completion_tokens=10),
        )


def label_of(model: str, prompt: str) -> str:
    """The label that a model votes for: two of three models agree on most prompts."""
    truth = int(prompt[:8], 16)
    own = int(hashlib.sha256((model + prompt).encode()).hexdigest()[:8], 16)
    return LABELS[(truth if own % 4 else own) % len(LABELS)]


class HashedTexts:
    """An embedder in place of sentence-transformers: a unit vector that is drawn from the text's hash."""

    loaded = True
    identity = "hashed-texts@1"
    dimension = 8

    def load(self) -> None:
        """Load nothing."""

    def close(self) -> None:
        """Close nothing."""

    def embed(self, texts: Sequence[str]) -> Array:
        return np.array([self._row(text) for text in texts]).reshape(-1, self.dimension)

    async def vector(self, text: str, *, soon: bool = True) -> Array:
        return self._row(text)

    def expect(self, texts: Sequence[str], *, soon: bool = True) -> None:
        """Expect nothing."""

    def _row(self, text: str) -> Array:
        seed = int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8])
        row = np.random.default_rng(seed).normal(size=self.dimension).astype(np.float32).astype(np.float64)
        row /= np.linalg.norm(row)
        return row
