"""The pool of named models."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from backend.errors import ModelUnknownError
from backend.models.calls import Answer
from backend.models.limits import Clock
from backend.models.model import Model
from backend.questions.prompts.parts import Messages
from backend.settings import ModelSettings


class Pool:
    """The models that can be asked, by name. Belongs to one event loop once the first call was made.

    Args:
        models: their settings, names unique.
        keys: model name → API key, for the models that have one of their own.
        processes: worker processes that share the limits per minute.
        clock: monotonic seconds.

    Raises:
        PriceMissingError: a model without a price.
        ConfigError: a model of a provider that litellm does not know.
    """

    def __init__(
        self,
        models: Sequence[ModelSettings],
        *,
        keys: Mapping[str, str] = MappingProxyType({}),
        processes: int = 1,
        clock: Clock = time.monotonic,
    ) -> None:
        self._models = {m.name: Model(m, keys.get(m.name), processes, clock) for m in models}

    def __repr__(self) -> str:
        return f"Pool({', '.join(self.names)})"

    @property
    def names(self) -> tuple[str, ...]:
        """The models in the order of the settings."""
        return tuple(self._models)

    def count(self, name: str, messages: Messages) -> int:
        """Input tokens of a prompt by litellm's count, uncorrected."""
        return self._model(name).count(messages)

    def cost(self, name: str, messages: Messages) -> float:
        """Expected $ of one call: corrected input tokens and the model's mean output, at its prices."""
        return self._model(name).cost(messages)

    def ceiling(self, name: str, messages: Messages, schema: Mapping[str, Any] | None = None) -> float:
        """The $ that one call can cost at the very most: what to reserve before it is made.

        No tokenizer makes more tokens of a text than it has bytes, which bounds a prompt that was counted
        with another model's; the answer is bounded by ``max_tokens``.
        """
        return self._model(name).ceiling(messages, schema)

    def fingerprint(self, name: str, messages: Messages, schema: Mapping[str, Any] | None) -> str:
        """SHA-256 (hex) over everything that decides the answer; not over the key, prices or limits."""
        return self._model(name).fingerprint(messages, schema)

    def observe(
        self, name: str, counted: int, input_tokens: int, output_tokens: int, *, calls: int = 1
    ) -> None:
        """Learn how far the count is off and how long answers are, from one call or the sums over several.

        :meth:`attempt` does this itself; the ledger's earlier calls are told at start-up.
        """
        self._model(name).meter.observe(counted, input_tokens, output_tokens, calls=calls)

    def sees(self, name: str) -> bool:
        """Whether a model takes images."""
        return self._model(name).sees

    def resting(self, name: str) -> bool:
        """Whether a model failed so often, or was told to wait so long, that it is better left out."""
        return self._model(name).rest.resting

    def judge(self, name: str, *, usable: bool) -> None:
        """Say whether a model's answer was a vote; one that gives none rests for a while."""
        self._model(name).rest.judged(usable=usable)

    def missing_keys(self, *names: str) -> tuple[str, ...]:
        """Environment variables with a key that is needed and not there, of some models or of all."""
        missing = (self._model(name).missing_variables for name in names or self.names)
        return tuple(dict.fromkeys(variable for variables in missing for variable in variables))

    async def attempt(
        self,
        name: str,
        messages: Messages,
        schema: Mapping[str, Any] | None,
        timeout: float,  # noqa: ASYNC109 - waiting counts, too
    ) -> Answer:
        """Ask once, without a retry.

        Args:
            name: the model.
            messages: system and user message.
            schema: JSON schema of the answer; sent along where the model takes one.
            timeout: seconds in all, waiting for a free slot and for the limits per minute included. The call
                itself is cut off after the model's own ``timeout``, too.

        Raises:
            ModelError: there is no answer; ``usage`` is what it cost all the same.
        """
        return await self._model(name).attempt(messages, schema, timeout)

    def _model(self, name: str) -> Model:
        try:
            return self._models[name]
        except KeyError:
            known = ", ".join(self.names)
            raise ModelUnknownError(f"{name!r} is not in the pool", fix=f"name one of {known}") from None
