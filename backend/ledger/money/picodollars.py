"""Money as whole picodollars (1e-12 $): sums of integers are exact, sums of dollars are not."""

from __future__ import annotations

import math
from decimal import Decimal

from camvo.errors import InvalidParameterError

PER_DOLLAR = 10**12

MOST_USD = 1e6
"""The largest sum of one entry; a 64-bit integer holds nine such."""


def to_picodollars(usd: float) -> int:
    """Dollars as picodollars, to the nearest; 0.1 is exactly 10**11.

    Raises:
        InvalidParameterError: a negative sum, one over a million, or no number.
    """
    if not (math.isfinite(usd) and 0 <= usd <= MOST_USD):
        raise InvalidParameterError(f"a sum of money must be from 0 to {MOST_USD:,.0f} $, got {usd}")
    return round(Decimal(repr(float(usd))) * PER_DOLLAR)


def from_picodollars(picodollars: int) -> float:
    """Picodollars as dollars: the nearest float."""
    return picodollars / PER_DOLLAR
