"""From counted tokens to dollars and hours, for every model of the pool."""

from __future__ import annotations

from collections.abc import Iterable

from backend.models import Pool
from backend.quotes.quote import ModelQuote, Range
from backend.quotes.token_tally import TokenTally
from backend.settings import ModelSettings

PACK = 20
"""The tasks in one prompt, for what packing would save."""


def model_quote(tally: TokenTally, pool: Pool, model: ModelSettings) -> ModelQuote:
    """What asking one model about every task costs."""
    meter, prices = pool.meter(model.name), pool.prices(model.name)
    inputs, outputs = tally.input * meter.factor, _outputs(tally, pool, model)
    usd = Range(prices.cost(inputs, outputs.low), prices.cost(inputs, outputs.high))
    return ModelQuote(inputs, outputs, usd, meter.calls, _hours(tally.tasks, inputs, outputs, model))


def with_levers(tally: TokenTally, pool: Pool, model: ModelSettings, *, batch: bool, pack: bool) -> float:
    """The likely $ of asking one model about every task in batches, packed, or both.

    Models whose batches have no known price cost what they do without.
    """
    meter = pool.meter(model.name)
    prices = (pool.batch_prices(model.name) if batch else None) or pool.prices(model.name)
    tokens = tally.packed(PACK) if pack else tally.input
    return prices.cost(tokens * meter.factor, _outputs(tally, pool, model).middle)


def _outputs(tally: TokenTally, pool: Pool, model: ModelSettings) -> Range:
    """The output tokens of all answers: measured, or from a bare answer to the longest one."""
    meter = pool.meter(model.name)
    if meter.calls:
        measured = tally.tasks * meter.output_tokens
        return Range(measured, measured)
    most = tally.tasks * model.max_tokens
    return Range(min(tally.answers, most), most)


def _hours(tasks: int, inputs: float, outputs: Range, model: ModelSettings) -> float | None:
    """The hours that one call for each task takes at the model's limits; ``None`` without limits."""
    minutes = []
    if model.rpm is not None:
        minutes.append(tasks / model.rpm)
    if model.tpm is not None:
        minutes.append((inputs + outputs.middle) / model.tpm)
    return max(minutes) / 60.0 if minutes else None


def total(ranges: Iterable[Range]) -> Range:
    """The sum of ranges."""
    listed = list(ranges)
    return Range(sum(one.low for one in listed), sum(one.high for one in listed))
