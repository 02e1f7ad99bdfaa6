"""One model of the pool: its price and key, its limits, what it has reported so far, and one call to it."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from backend.errors import (
    ConfigError,
    KeyRejectedError,
    ModelError,
    ModelTimeoutError,
    RateLimitedError,
    Usage,
)
from backend.models import calls, facts
from backend.models.calls import Answer
from backend.models.failures import model_error, retry_after
from backend.models.limits import Clock, Limits, Rest
from backend.models.prices import IMAGE_TOKENS, Meter, most_tokens, price_of
from backend.questions.prompts import parts
from backend.questions.prompts.parts import Messages
from backend.settings import ModelSettings
from backend.settings.masking import masked

_NO_KEY = "none"
"""Sent to an OpenAI-compatible server that was given no key; litellm would send it OpenAI's own."""


class Model:
    """A model that can be asked.

    Args:
        settings: its settings.
        key: its API key; ``None`` leaves it to litellm to find its provider's.
        processes: worker processes that share the limits per minute.
        clock: monotonic seconds.

    Raises:
        PriceMissingError: nobody knows its price.
        ConfigError: litellm does not know its provider.
    """

    def __init__(self, settings: ModelSettings, key: str | None, processes: int, clock: Clock) -> None:
        self.settings = settings
        self._where = f"model {settings.name}"
        self._provider = facts.provider(settings.model)
        if self._provider is None and not settings.is_embedded:  # a built-in one may be registered later
            raise ConfigError(
                f"litellm knows no provider for {settings.model!r}",
                where=self._where,
                fix="begin with the provider, as in openai/gpt-4o",
            )
        self._price = price_of(settings, facts.entry(settings.model))
        self.meter = Meter(settings.max_tokens)
        self.rest = Rest(clock, patience=settings.timeout)
        self._key = key or (_NO_KEY if self._is_open_server else None)
        self._clock = clock
        self._slots = asyncio.Semaphore(settings.max_concurrency)
        self._limits = Limits(
            settings.rpm and settings.rpm / processes, settings.tpm and settings.tpm / processes, clock
        )

    def __repr__(self) -> str:
        return f"Model({self.settings.name})"

    @property
    def _is_open_server(self) -> bool:
        own_address = not {"api_base", "base_url"}.isdisjoint(self.settings.parameters)
        return self._provider == "openai" and own_address and self.settings.api_key_env is None

    @cached_property
    def _structured(self) -> bool:
        given = self.settings.structured_output
        return facts.takes_schema(self.settings.model) if given is None else given

    @cached_property
    def _system(self) -> bool:
        given = self.settings.system_message
        return facts.takes_system_message(self.settings.model) if given is None else given

    @cached_property
    def sees(self) -> bool:
        """Whether it takes images."""
        given = self.settings.vision
        return facts.takes_images(self.settings.model) if given is None else given

    @property
    def missing_variables(self) -> tuple[str, ...]:
        """Environment variables that should hold the key and do not."""
        if self._key is not None or self.settings.is_embedded:
            return ()
        if self.settings.api_key_env is not None:
            return (self.settings.api_key_env,)
        return facts.missing_variables(self.settings.model)

    def count(self, messages: Messages) -> int:
        """Input tokens by litellm's count."""
        return facts.count_tokens(parts.texts(messages)) + IMAGE_TOKENS * parts.images(messages)

    def cost(self, messages: Messages) -> float:
        """Expected $ of one call."""
        return self._price.of(self._expected_input(messages), self.meter.output_tokens)

    def ceiling(self, messages: Messages, schema: Mapping[str, Any] | None) -> float:
        """The $ of one call at the very most."""
        schemas = [json.dumps(schema)] if self._structured else []
        most = most_tokens(parts.texts(messages), schemas, parts.images(messages))
        return self._price.of(max(most, self._expected_input(messages)), self.settings.max_tokens)

    def _expected_input(self, messages: Messages) -> float:
        return self.count(messages) * self.meter.factor

    def fingerprint(self, messages: Messages, schema: Mapping[str, Any] | None) -> str:
        """SHA-256 (hex) of the request, secrets among its parameters masked."""
        request = self._request(messages, schema)
        # only the parameters: a prompt that is shown masked is still another prompt
        request |= {key: masked(key, value) for key, value in self.settings.parameters.items()}
        return hashlib.sha256(json.dumps(request, sort_keys=True, default=str).encode()).hexdigest()

    def _request(self, messages: Messages, schema: Mapping[str, Any] | None) -> dict[str, Any]:
        return calls.request(
            self.settings, messages, schema, structured=self._structured, system=self._system
        )

    async def attempt(self, messages: Messages, schema: Mapping[str, Any] | None, patience: float) -> Answer:
        """Ask once; see ``Pool.attempt``."""
        self._refuse_without_key()
        request = self._request(messages, schema)
        counted = self.count(messages)
        tokens = self._expected_input(messages) + self.meter.output_tokens
        until = asyncio.get_running_loop().time() + patience
        asked: float | None = None
        try:
            async with asyncio.timeout_at(until), self._slots:
                await self._sit_out(until)
                used = await self._limits.enter(tokens)
                asked = self._clock()
                async with asyncio.timeout(self.settings.timeout):
                    response = await self._send(request, min(patience, self.settings.timeout))
        except Exception as error:
            raise self._failure(error, asked=asked is not None) from None
        answer = self._answer(response, counted, self._clock() - asked)
        used(answer.input_tokens + answer.output_tokens)
        return answer

    def _refuse_without_key(self) -> None:
        if self._key is None and self.settings.api_key_env is not None:
            error = KeyRejectedError(
                f"the environment variable {self.settings.api_key_env} is not set",
                where=self._where,
                fix="set it and start again",
            )
            self.rest.failed(error)
            raise error

    async def _sit_out(self, until: float) -> None:
        """Wait as long as the provider asked for, or say at once that there is not the time."""
        loop = asyncio.get_running_loop()
        if loop.time() >= until:
            raise TimeoutError
        while (wait := self.rest.seconds_to_wait) > 0:
            if loop.time() + wait >= until:
                raise RateLimitedError(f"asks to be left alone for {wait:.0f} s more", where=self._where)
            await asyncio.sleep(wait)

    async def _send(self, request: Mapping[str, Any], seconds: float) -> Any:
        key = {} if self._key is None else {"api_key": self._key}
        # drop_params goes with the call: set on the module, litellm asks a second time after an HTTP 422
        return await facts.litellm().acompletion(
            **request, **key, timeout=seconds, max_retries=0, num_retries=0, drop_params=True
        )

    def _failure(self, error: Exception, *, asked: bool) -> ModelError:
        """Our error for what came instead of an answer; waiting is not held against the model."""
        if isinstance(error, ModelError):
            return error
        if isinstance(error, TimeoutError) and not asked:
            return ModelTimeoutError(
                "had no room for another request in time",
                where=self._where,
                fix="raise max_concurrency, rpm or tpm if the provider allows more",
            )
        made = model_error(error, self.settings.name)
        self.rest.failed(made, retry_after(error))
        return made

    def _answer(self, response: Any, counted: int, seconds: float) -> Answer:
        """The answer in a response, what it reports learnt from.

        Raises:
            RefusedError: the model or a filter of its provider refused.
            BadAnswerError: there is no text.
        """
        got = calls.read(response)
        input_tokens = got.input_tokens or round(counted * self.meter.factor)
        output_tokens = got.output_tokens or (facts.count_tokens((got.content,)) if got.content else 0)
        cost = self._price.of(input_tokens, output_tokens)
        self.meter.observe(counted, input_tokens, output_tokens)
        self.rest.answered()
        flaw = calls.flaw(got, self.settings, Usage(input_tokens, output_tokens, cost))
        if flaw is not None:
            raise flaw
        estimated = not (got.input_tokens and got.output_tokens)
        return Answer(got.content, input_tokens, output_tokens, cost, seconds, counted, estimated)
