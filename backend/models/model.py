"""One model of the pool: its key, its capabilities, what is sent to it, and what a call will cost."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from backend.errors import ConfigError, PriceMissingError
from backend.models import litellm_info
from backend.models.calls import litellm_request
from backend.models.prices import (
    IMAGE_TOKENS,
    TokenMeter,
    TokenPrices,
    batch_prices,
    max_input_tokens,
    token_prices,
)
from backend.questions.prompts.message_parts import Messages, image_count, texts_of
from backend.settings import ModelSettings
from backend.settings.built_in_voters import DEFAULT_MODELS
from backend.settings.masking import masked
from backend.settings.mistakes import closest

_NO_KEY = "none"
"""Sent to an OpenAI-compatible server without a key, because litellm would send it OpenAI's own key."""


_LIKE = 0.8
"""Similarity from which a model's name counts as misspelt."""


def _meant(settings: ModelSettings) -> str | None:
    """Ask whether a known model of nearly the same name was meant; ``None`` if no name is close.

    A server of one's own has models that litellm does not know.
    """
    if settings.is_embedded:
        close = closest(settings.model, [voter.model for voter in DEFAULT_MODELS], _LIKE)
    elif "api_base" in settings.parameters or "base_url" in settings.parameters:
        close = None
    else:
        known = litellm_info.chat_models()
        close = closest(settings.model, known, _LIKE)
        close = None if close is None else known[close]
    return None if close in (None, settings.model) else f"did you mean {close}?"


class Model:
    """What is known about one model before it is called.

    Args:
        settings: the model's settings.
        key: its API key; if ``None``, litellm looks for its provider's key.

    Raises:
        PriceMissingError: neither the settings nor litellm have its price.
        ConfigError: litellm does not know its provider.
    """

    def __init__(self, settings: ModelSettings, key: str | None) -> None:
        self.settings = settings
        self.where = f"model {settings.name}"
        self._provider = litellm_info.provider_of(settings.model)
        # embedded voters may be registered with litellm later
        if self._provider is None and not settings.is_embedded:
            raise ConfigError(
                f"litellm knows no provider for {settings.model!r}",
                where=self.where,
                fix=_meant(settings) or "begin with the provider, as in openai/gpt-4o",
            )
        entry = litellm_info.price_map_entry(settings.model)
        try:
            self.prices = token_prices(settings, entry)
        except PriceMissingError as error:
            if (meant := _meant(settings)) is None:
                raise
            raise PriceMissingError(error.message, where=error.where, fix=f"{meant} Or {error.fix}") from None
        self.batch_prices = batch_prices(settings, self.prices, entry)
        self.meter = TokenMeter(settings.max_tokens, settings.pack or 1)
        self._most_output = _whole(entry.get("max_output_tokens"))
        self.key = key or (_NO_KEY if self._is_open_server else None)

    def __repr__(self) -> str:
        return f"Model({self.settings.name})"

    @property
    def provider(self) -> str | None:
        """Litellm's name of its provider."""
        return self._provider

    @property
    def _is_open_server(self) -> bool:
        has_own_address = not {"api_base", "base_url"}.isdisjoint(self.settings.parameters)
        return self._provider == "openai" and has_own_address and self.settings.api_key_env is None

    @cached_property
    def _accepts_schema(self) -> bool:
        configured = self.settings.structured_output
        return litellm_info.accepts_schema(self.settings.model) if configured is None else configured

    @cached_property
    def _accepts_system_message(self) -> bool:
        configured = self.settings.system_message
        return litellm_info.accepts_system_message(self.settings.model) if configured is None else configured

    @cached_property
    def sees(self) -> bool:
        """Whether the model accepts images."""
        configured = self.settings.vision
        return litellm_info.accepts_images(self.settings.model) if configured is None else configured

    def can_be_shown(self, addresses: Sequence[str]) -> bool:
        """Whether the model accepts images, and opens the web addresses among these itself."""
        on_the_web = (address for address in addresses if not address.lower().startswith("data:"))
        return self.sees and all(
            litellm_info.passes_on(self.settings.model, address) for address in on_the_web
        )

    @property
    def missing_variables(self) -> tuple[str, ...]:
        """The environment variables that should hold the key and are not set."""
        if self.key is not None or self.settings.is_embedded:
            return ()
        if self.settings.api_key_env is not None:
            return (self.settings.api_key_env,)
        return litellm_info.missing_variables(self.settings.model)

    def count(self, messages: Messages) -> int:
        """Return the input tokens by litellm's count."""
        return litellm_info.count_tokens(texts_of(messages)) + IMAGE_TOKENS * image_count(messages)

    def expected_input(self, messages: Messages) -> float:
        """Return the input tokens that the model will probably report."""
        return self.count(messages) * self.meter.factor

    def cost(self, messages: Messages, tasks: int = 1) -> float:
        """Return the expected cost of one call about so many tasks, $."""
        return self._cost_of(self.count(messages), tasks)

    def packed_cost(self, system: str, texts: str, *, batched: bool = False) -> float:
        """Return the expected cost of asking about one task in a prompt with others, $.

        Args:
            system: the system message, which is shared.
            texts: the task's own part of the prompt.
            batched: whether the prompt is a line of a provider's batch.
        """
        shared, own = litellm_info.count_tokens((system,)), litellm_info.count_text(texts)
        return self._cost_of(shared / self.meter.tasks_in_prompt + own, batched=batched)

    def _cost_of(self, counted: float, tasks: int = 1, *, batched: bool = False) -> float:
        expected, output = counted * self.meter.factor, self.meter.output_tokens * tasks
        if batched:
            return self._batch_prices.cost(expected, output)
        return self.prices.cost(expected, output, self.meter.cached_share * expected)

    def for_tasks(self, number: int) -> Model:
        """Return the model for a prompt about so many tasks: its answer may be that many times as long."""
        if number == 1:
            return self
        most = number * self.settings.max_tokens
        if self._most_output is not None:
            most = max(min(most, self._most_output), self.settings.max_tokens)
        sized = copy.copy(self)
        sized.settings = self.settings.model_copy(update={"max_tokens": most})
        return sized

    def ceiling(self, messages: Messages, schema: Mapping[str, Any] | None) -> float:
        """Return the highest possible cost of one call, $."""
        return self.prices.cost(self.most_input(messages, schema), self.settings.max_tokens)

    def batch_cost(self, messages: Messages) -> float:
        """Return the expected cost of one line of a batch, $; at full price if no other is known."""
        return self._cost_of(self.count(messages), batched=True)

    def batch_ceiling(self, messages: Messages, schema: Mapping[str, Any] | None) -> float:
        """Return the highest possible cost of one line of a batch, $."""
        return self._batch_prices.cost(self.most_input(messages, schema), self.settings.max_tokens)

    @property
    def _batch_prices(self) -> TokenPrices:
        return self.batch_prices or self.prices

    def most_input(self, messages: Messages, schema: Mapping[str, Any] | None) -> int:
        """Return the most input tokens that a call can take; a usage above it is not believed."""
        schemas = [json.dumps(schema)] if self._accepts_schema else []
        return max_input_tokens(texts_of(messages), schemas, image_count(messages))

    def fingerprint(self, messages: Messages, schema: Mapping[str, Any] | None) -> str:
        """Return the SHA-256 (hex) of the request, with secrets among its parameters masked."""
        request = self.request(messages, schema)
        # Only parameters are masked. Masking the messages would give different prompts the same fingerprint.
        request |= {key: masked(key, value) for key, value in self.settings.parameters.items()}
        return hashlib.sha256(json.dumps(request, sort_keys=True, default=str).encode()).hexdigest()

    def request(self, messages: Messages, schema: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the litellm parameters of a call, without key and timeout."""
        return litellm_request(
            self.settings,
            messages,
            schema,
            structured=self._accepts_schema,
            system=self._accepts_system_message,
        )


def _whole(value: object) -> int | None:
    """Return a positive whole number of litellm's map, and ``None`` for anything else."""
    return value if isinstance(value, int) and value > 0 else None
