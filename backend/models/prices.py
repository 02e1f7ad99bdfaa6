"""What a model's tokens cost, in calls and in batches, and its reported usage, by which that is expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from backend.errors import PriceMissingError
from backend.settings import ModelSettings

_MILLION = 1_000_000


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
    """Return a model's prices: those in its settings; missing ones come from litellm's price map.

    Args:
        settings: the model's settings.
        entry: its entry in litellm's price map; empty if it is not listed.

    Raises:
        PriceMissingError: neither has a price.
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


def prices_in_batches(
    settings: ModelSettings, prices: TokenPrices, entry: Mapping[str, object]
) -> TokenPrices | None:
    """Return the prices in the provider's batches; ``None`` if they are unknown.

    They come from ``batch_discount``, else from litellm's map. If the settings have their own prices, the map
    is not used. Models that are free are free in batches, too. Batches have no price of cached input.
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
        max_tokens: the most output tokens about one task; expected before any model's first report.
        most_tasks: the expected number of tasks in a prompt before the first report.
        beside: the meters of the pool's models. The median of their answers is expected of a model that has
            never answered.
    """

    def __init__(self, max_tokens: int, most_tasks: int = 1, beside: Sequence[TokenMeter] = ()) -> None:
        self._max_tokens, self._most_tasks, self._beside = max_tokens, most_tasks, beside
        self._counted = self._reported = self._cached = self._output = self._calls = self._tasks = 0

    def observe(self, used: Used, *, calls: int = 1, tasks: int = 1) -> None:
        """Learn from calls about ``tasks`` tasks each. Without input tokens only the output is used."""
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
        """Mean output tokens of the answer about one task.

        Before the first report it is the median of the other models, and before theirs ``max_tokens``.
        """
        if self._tasks:
            return self._output / self._tasks
        others = [meter._output / meter._tasks for meter in self._beside if meter._tasks]
        return min(median(others), float(self._max_tokens)) if others else float(self._max_tokens)

    @property
    def measured_by(self) -> str:
        """What the expected length of an answer rests on: ``calls``, ``others`` or ``max_tokens``."""
        if self._tasks:
            return "calls"
        return "others" if any(meter._tasks for meter in self._beside) else "max_tokens"

    @property
    def tasks_in_prompt(self) -> float:
        """Mean number of tasks in a prompt; ``most_tasks`` before the first report."""
        return self._tasks / self._calls if self._calls else float(self._most_tasks)
