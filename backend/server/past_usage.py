"""The models' past token counts, read at start-up."""

from __future__ import annotations

from backend.ledger import Ledger
from backend.ledger.money.usage import usage_by_model
from backend.models import Pool


def recall_usage(pool: Pool, ledger: Ledger) -> None:
    """Tell the pool how many tokens its models used in the past, so that it predicts prices from them."""
    with ledger.read() as connection:
        usages = usage_by_model(connection)
    for name, usage in usages.items():
        if name in pool.names:
            pool.observe(
                name, usage.counted_tokens, usage.input_tokens, usage.output_tokens, calls=usage.calls
            )
