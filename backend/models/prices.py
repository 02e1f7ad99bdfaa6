"""What a model costs: dollars per token, and the number of tokens that a call will use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from backend.errors import PriceMissingError
from backend.settings import ModelSettings

_MILLION = 1_000_000

_PER_MESSAGE = 16
"""Tokens that a provider may add to a message."""

IMAGE_TOKENS = 1000
"""Tokens that an image counts as.

The actual number is unknown before the call: one provider charges 258 tokens per tile of 768 pixels, another
1,600 for a megapixel. Reported usage corrects the count, as for text.
"""

_PER_IMAGE = 50_000
"""The most tokens that an image takes; some small models charge far more than others."""

MAX_FACTOR = _PER_IMAGE // IMAGE_TOKENS
"""The most input tokens that a counted token may turn out to be; images have the largest ratio."""

_PER_SCHEMA = 600
"""Tokens that a provider may add to a schema; some turn it into a tool and explain tools to the model."""


@dataclass(frozen=True, slots=True)
class TokenPrices:
    """Dollars per million input and output tokens. Discounts for cached input are ignored."""

    input: float
    output: float

    def cost(self, input_tokens: float, output_tokens: float) -> float:
        """Return the dollars for a number of tokens; reasoning tokens are output tokens."""
        return (input_tokens * self.input + output_tokens * self.output) / _MILLION


def token_prices(settings: ModelSettings, entry: Mapping[str, object]) -> TokenPrices:
    """Return the prices in the settings; missing ones come from litellm's price map.

    A price of 0 in the map can mean "unknown" or "free", so 0 is accepted from the settings only.

    Args:
        settings: the model.
        entry: the model's entry in litellm's map, $ per token; may be empty.

    Raises:
        PriceMissingError: neither source has the price; ``where`` names the model.
    """
    prices: list[float] = []
    for direction, configured in (("input", settings.input_price), ("output", settings.output_price)):
        mapped = entry.get(f"{direction}_cost_per_token")
        if configured is None and not (isinstance(mapped, int | float) and mapped > 0):
            raise PriceMissingError(
                f"the price of {settings.model} per {direction} token is unknown",
                where=f"model {settings.name}",
                fix=f"set {direction}_price in dollars per million tokens; write 0 if it is free",
            )
        prices.append(float(mapped) * _MILLION if configured is None else configured)  # type: ignore[arg-type]
    return TokenPrices(*prices)


def batch_prices(
    settings: ModelSettings, prices: TokenPrices, entry: Mapping[str, object]
) -> TokenPrices | None:
    """Return the prices in the provider's batches; ``None`` if they are unknown.

    They come from ``batch_discount``, else from litellm's map. If the settings have prices of their own, the
    map knows nothing about them. What is free is free in batches, too.

    Args:
        settings: the model.
        prices: those of single calls.
        entry: the model's entry in litellm's map, $ per token; may be empty.
    """
    if settings.batch_discount is not None:
        share = 1.0 - settings.batch_discount
        return TokenPrices(prices.input * share, prices.output * share)
    if not prices.input and not prices.output:
        return prices
    mapped = [entry.get(f"{direction}_cost_per_token_batches") for direction in ("input", "output")]
    own = settings.input_price is not None or settings.output_price is not None
    known = [float(price) * _MILLION for price in mapped if isinstance(price, int | float) and price > 0]
    return TokenPrices(*known) if len(known) == 2 and not own else None


def max_input_tokens(contents: Sequence[str], schemas: Sequence[str], images: int = 0) -> int:
    """Return an upper bound on the input tokens of texts, JSON schemas and images, for any tokenizer.

    No tokenizer makes more tokens of a text than the text has bytes.
    """
    messages = sum(len(content.encode()) + _PER_MESSAGE for content in contents)
    return messages + sum(len(schema.encode()) + _PER_SCHEMA for schema in schemas) + images * _PER_IMAGE


class TokenMeter:
    """A model's reported usage so far. It corrects token counts and predicts the length of answers.

    The tokens of all models are counted with one tokenizer, so each model needs its own correction factor.
    Callers report only what they believe of a usage: a single absurd number would otherwise raise the
    expected price of every later call.

    Args:
        max_tokens: the expected output tokens before the first report.
    """

    def __init__(self, max_tokens: int) -> None:
        self._max_tokens = max_tokens
        self._counted = self._reported = self._output = self._calls = 0

    def observe(self, counted: int, input_tokens: int, output_tokens: int, *, calls: int = 1) -> None:
        """Learn from one call, or from the sums of several. Without input tokens only the output is used."""
        if counted > 0 and input_tokens > 0:
            self._counted += counted
            self._reported += input_tokens
        self._calls += calls
        self._output += output_tokens

    @property
    def calls(self) -> int:
        """The number of reported calls."""
        return self._calls

    @property
    def factor(self) -> float:
        """Reported input tokens per counted token; 1 before the first report."""
        return self._reported / self._counted if self._counted else 1.0

    @property
    def output_tokens(self) -> float:
        """Mean output tokens of an answer; ``max_tokens`` before the first report."""
        return self._output / self._calls if self._calls else float(self._max_tokens)
