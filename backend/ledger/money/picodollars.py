"""Money as whole picodollars (10⁻¹² $), because sums of integers are exact and sums of floats are not."""

from __future__ import annotations

import math
from decimal import Decimal

from camvo.errors import InvalidParameterError

PER_DOLLAR = 10**12

MAX_USD = 1e6
"""The largest amount of one entry, in $; a 64-bit integer holds nine times as much."""


def to_picodollars(usd: float) -> int:
    """Convert dollars to the nearest number of picodollars; $0.1 is exactly 10**11.

    Raises:
        InvalidParameterError: the amount is negative, not finite, or over :data:`MAX_USD`.
    """
    if not (math.isfinite(usd) and 0 <= usd <= MAX_USD):
        raise InvalidParameterError(f"an amount of money must be between $0 and ${MAX_USD:,.0f}, got {usd}")
    return round(Decimal(repr(float(usd))) * PER_DOLLAR)


def from_picodollars(picodollars: int) -> float:
    """Convert picodollars to dollars, as the nearest float."""
    return picodollars / PER_DOLLAR
