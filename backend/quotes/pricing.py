"""From counted tokens to dollars and hours, for every model of the pool."""

from __future__ import annotations

from collections.abc import Iterable

from backend.models import Pool
from backend.quotes.asking import Asking, in_a_prompt, meter_of, prices_of
from backend.quotes.job_tally import JobTally
from backend.quotes.quote import ModelQuote, Range
from backend.settings import ModelSettings


def model_quote(tally: JobTally, pool: Pool, model: ModelSettings, asking: Asking) -> ModelQuote:
    """What asking one model about every task costs."""
    meter = meter_of(pool, model, asking)
    tasks = in_a_prompt(tally, pool, model, asking)
    inputs = tally.packed(tasks) * meter.factor
    outputs = _outputs(tally, pool, model, asking)
    hours = None if asking.batch else _hours(tally.calls(tasks), inputs + outputs.middle, model)
    return ModelQuote(
        inputs, outputs, _usd(pool, model, asking, inputs, outputs), meter.calls, hours, asking.pack
    )


def usd_if(tally: JobTally, pool: Pool, model: ModelSettings, asking: Asking) -> float:
    """The likely $ of asking one model about every task in some way."""
    return model_quote(tally, pool, model, asking).usd.middle


def _usd(pool: Pool, model: ModelSettings, asking: Asking, inputs: float, outputs: Range) -> Range:
    prices, cached = prices_of(pool, model, asking), inputs * meter_of(pool, model, asking).cached_share
    return Range(prices.cost(inputs, outputs.low, cached), prices.cost(inputs, outputs.high, cached))


def _outputs(tally: JobTally, pool: Pool, model: ModelSettings, asking: Asking) -> Range:
    """The output tokens of all answers: measured, or from a bare answer to the longest one."""
    meter = meter_of(pool, model, asking)
    if meter.calls:
        measured = tally.tasks * meter.output_tokens
        return Range(measured, measured)
    most = tally.tasks * model.max_tokens
    return Range(min(tally.answers, most), most)


def _hours(calls: float, tokens: float, model: ModelSettings) -> float | None:
    """The hours that so many calls and tokens take at the model's limits; ``None`` without limits."""
    minutes = []
    if model.rpm is not None:
        minutes.append(calls / model.rpm)
    if model.tpm is not None:
        minutes.append(tokens / model.tpm)
    return max(minutes) / 60.0 if minutes else None


def total(ranges: Iterable[Range]) -> Range:
    """The sum of ranges."""
    listed = list(ranges)
    return Range(sum(one.low for one in listed), sum(one.high for one in listed))
