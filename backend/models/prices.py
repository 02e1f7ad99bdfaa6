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
    """Dollars per million input and output tokens, and per million input tokens from a provider's cache."""

    input: float
    output: float
    cached: float

    def cost(self, input_tokens: float, output_tokens: float, cached_tokens: float = 0.0) -> float:
        """Return the dollars for a number of tokens.

        Args:
            input_tokens: all input tokens.
            output_tokens: reasoning tokens are output tokens.
            cached_tokens: the part of the input tokens that the provider read from its cache.
        """
        new_tokens = input_tokens - cached_tokens
        return (
            new_tokens * self.input + cached_tokens * self.cached + output_tokens * self.output
        ) / _MILLION


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
    return TokenPrices(prices[0], prices[1], _cached_price(settings, entry, prices[0]))


def _cached_price(settings: ModelSettings, entry: Mapping[str, object], input_price: float) -> float:
    """The price of cached input in $ per million; the input price where no other is known."""
    if settings.cached_input_price is not None:
        return settings.cached_input_price
    mapped = entry.get("cache_read_input_token_cost")
    if settings.input_price is None and isinstance(mapped, int | float):
        return float(mapped) * _MILLION
    return input_price


def batch_prices(
    settings: ModelSettings, prices: TokenPrices, entry: Mapping[str, object]
) -> TokenPrices | None:
    """Return the prices in the provider's batches; ``None`` if they are unknown.

    They come from ``batch_discount``, else from litellm's map. If the settings have prices of their own, the
    map knows nothing about them. What is free is free in batches, too. Batches have no price of cached input.

    Args:
        settings: the model.
        prices: those of single calls.
        entry: the model's entry in litellm's map, $ per token; may be empty.
    """
    if settings.batch_discount is not None:
        share = 1.0 - settings.batch_discount
        return TokenPrices(prices.input * share, prices.output * share, prices.input * share)
    if not prices.input and not prices.output:
        return prices
    mapped = [entry.get(f"{direction}_cost_per_token_batches") for direction in ("input", "output")]
    own = settings.input_price is not None or settings.output_price is not None
    known = [float(price) * _MILLION for price in mapped if isinstance(price, int | float) and price > 0]
    return TokenPrices(known[0], known[1], known[0]) if len(known) == 2 and not own else None


def max_input_tokens(contents: Sequence[str], schemas: Sequence[str], images: int = 0) -> int:
    """Return an upper bound on the input tokens of texts, JSON schemas and images, for any tokenizer.

    No tokenizer makes more tokens of a text than the text has bytes.
    """
    messages = sum(len(content.encode()) + _PER_MESSAGE for content in contents)
    return messages + sum(len(schema.encode()) + _PER_SCHEMA for schema in schemas) + images * _PER_IMAGE


@dataclass(frozen=True, slots=True)
class Used:
    """The tokens of one call, or the sums of several.

    Attributes:
        counted: input tokens by CaMVo's own count.
        input: input tokens as reported, and believed.
        output: output tokens as reported, and believed.
        cached: the part of the input tokens that the provider read from its cache.
    """

    counted: int
    input: int
    output: int
    cached: int = 0


class TokenMeter:
    """A model's reported usage so far. It corrects token counts and predicts the length of answers.

    The tokens of all models are counted with one tokenizer, so each model needs its own correction factor.
    Callers report only what they believe of a usage: a single absurd number would otherwise raise the
    expected price of every later call.

    Args:
        max_tokens: the expected output tokens about one task before the first report.
        most_tasks: the expected number of tasks in a prompt before the first report.
    """

    def __init__(self, max_tokens: int, most_tasks: int = 1) -> None:
        self._max_tokens, self._most_tasks = max_tokens, most_tasks
        self._counted = self._reported = self._cached = self._output = self._calls = self._tasks = 0

    def observe(self, used: Used, *, calls: int = 1, tasks: int = 1) -> None:
        """Learn from calls about so many tasks. Without input tokens only the output is used."""
        if used.counted > 0 and used.input > 0:
            self._counted += used.counted
            self._reported += used.input
            self._cached += min(used.cached, used.input)
        self._calls += calls
        self._tasks += tasks
        self._output += used.output

    @property
    def calls(self) -> int:
        """The number of reported calls."""
        return self._calls

    @property
    def factor(self) -> float:
        """Reported input tokens per counted token; 1 before the first report."""
        return self._reported / self._counted if self._counted else 1.0

    @property
    def cached_share(self) -> float:
        """The share of the input tokens that came from the provider's cache; 0 before the first report."""
        return self._cached / self._reported if self._reported else 0.0

    @property
    def output_tokens(self) -> float:
        """Mean output tokens of the answer about one task; ``max_tokens`` before the first report."""
        return self._output / self._tasks if self._tasks else float(self._max_tokens)

    @property
    def tasks_in_prompt(self) -> float:
        """Mean number of tasks in a prompt; ``most_tasks`` before the first report."""
        return self._tasks / self._calls if self._calls else float(self._most_tasks)
