"""What a model costs: dollars per token, and how many tokens a prompt will turn out to be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from backend.errors import PriceMissingError
from backend.settings import ModelSettings

_MILLION = 1_000_000

_PER_MESSAGE = 16
"""Tokens that a provider may put around a message."""

IMAGE_TOKENS = 1000
"""Tokens that an image is counted as. Nobody can say before it is sent: a tile of 768 pixels takes 258 with
one provider, a megapixel 1,600 with another. What a model reports corrects the count, as it does for text."""

_PER_IMAGE = 50_000
"""Tokens that an image takes at the very most: small models count each of its pixels many times over."""

_PER_SCHEMA = 600
"""Tokens that one may put around a schema: some turn it into a tool and explain tools to the model."""


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens, in and out; discounts for cached input are left aside."""

    input: float
    output: float

    def of(self, input_tokens: float, output_tokens: float) -> float:
        """Dollars for so many tokens; reasoning tokens are output tokens."""
        return (input_tokens * self.input + output_tokens * self.output) / _MILLION


def price_of(settings: ModelSettings, entry: Mapping[str, object]) -> Price:
    """The price in the settings, and what is left out there from litellm's price map.

    A 0 in the map stands for "unknown" as often as for "free", so only a 0 in the settings is taken.

    Args:
        settings: the model.
        entry: what litellm's map knows about it, $ per token; may be empty.

    Raises:
        PriceMissingError: neither says; ``where`` names the model.
    """
    prices: list[float] = []
    for direction, given in (("input", settings.input_price), ("output", settings.output_price)):
        known = entry.get(f"{direction}_cost_per_token")
        if given is None and not (isinstance(known, int | float) and known > 0):
            raise PriceMissingError(
                f"nobody knows what {settings.model} costs per {direction} token",
                where=f"model {settings.name}",
                fix=f"set {direction}_price in dollars per million tokens; write 0 if it is free",
            )
        prices.append(float(known) * _MILLION if given is None else given)  # type: ignore[arg-type]
    return Price(*prices)


def most_tokens(contents: Sequence[str], schemas: Sequence[str], images: int = 0) -> int:
    """An upper bound of the input tokens of texts, JSON schemas and images, whatever the tokenizer.

    No tokenizer makes more tokens of a text than the text has bytes.
    """
    messages = sum(len(content.encode()) + _PER_MESSAGE for content in contents)
    return messages + sum(len(schema.encode()) + _PER_SCHEMA for schema in schemas) + images * _PER_IMAGE


class Meter:
    """What a model has reported so far: how far the token count is off, and how long its answers are.

    All models are counted with one tokenizer, so each needs a factor of its own.
    """

    def __init__(self, max_tokens: int) -> None:
        self._max_tokens = max_tokens
        self._counted = self._reported = self._written = self._calls = 0

    def observe(self, counted: int, input_tokens: int, output_tokens: int, *, calls: int = 1) -> None:
        """Learn from one call, or from the sums over several; without input tokens, only about the output."""
        if counted > 0 and input_tokens > 0:
            self._counted += counted
            self._reported += input_tokens
        self._calls += calls
        self._written += output_tokens

    @property
    def factor(self) -> float:
        """Reported input tokens for each counted one; 1 until something was reported."""
        return self._reported / self._counted if self._counted else 1.0

    @property
    def output_tokens(self) -> float:
        """Mean output tokens of an answer; ``max_tokens`` until the first."""
        return self._written / self._calls if self._calls else float(self._max_tokens)
