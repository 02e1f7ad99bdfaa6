"""Providers' batches: many requests at a lower price, answered within a day; the adapters of providers."""

from __future__ import annotations

from typing import Final

from backend.errors import BatchesUnsupportedError, PriceMissingError
from backend.models.batches.anthropic_batches import AnthropicBatches
from backend.models.batches.openai_batches import PROVIDERS, OpenAIBatches
from backend.models.batches.provider import BatchProvider
from backend.models.model import Model

_ANTHROPIC: Final = "anthropic"


def has_batches(model: Model) -> bool:
    """Whether there is an adapter for the model's provider."""
    return model.provider in (*PROVIDERS, _ANTHROPIC)


def adapter(model: Model) -> BatchProvider:
    """The adapter of a model, if everything about its batches is known."""
    if model.provider is None or not has_batches(model):
        raise BatchesUnsupportedError(
            f"there are no batches for the provider of {model.settings.model!r}",
            where=model.where,
            fix=f"leave out batch: true; there are batches for {', '.join((*PROVIDERS, _ANTHROPIC))}",
        )
    if model.batch_prices is None:
        raise PriceMissingError(
            f"the price of {model.settings.model} in batches is unknown",
            where=model.where,
            fix="set batch_discount to the share that batches save, such as 0.5",
        )
    if model.provider == _ANTHROPIC:
        return AnthropicBatches(model.settings, model.key or _anthropic_key())
    return OpenAIBatches(model.settings, model.provider, model.key)


def _anthropic_key() -> str | None:
    from litellm.llms.anthropic.common_utils import AnthropicModelInfo  # noqa: PLC0415 - slow to import

    key: str | None = AnthropicModelInfo.get_api_key()
    return key
