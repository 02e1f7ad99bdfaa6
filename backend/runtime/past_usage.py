"""The models' past token counts, read at start-up."""

from __future__ import annotations

from backend.ledger import Ledger
from backend.ledger.money.usage import usage_by_model
from backend.models import Pool
from backend.models.prices import MAX_FACTOR


def recall_usage(pool: Pool, ledger: Ledger) -> None:
    """Tell the pool how many tokens its models used in the past, so that it predicts prices from them."""
    with ledger.read() as connection:
        usages = usage_by_model(connection, pool.most_output, max_factor=MAX_FACTOR)
    for name, usage in usages.items():
        pool.observe(
            name,
            usage.counted_tokens,
            usage.input_tokens,
            usage.output_tokens,
            calls=usage.calls,
            tasks=usage.tasks,
            cached_tokens=usage.cached_tokens,
        )
