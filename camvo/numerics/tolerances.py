"""When two numbers count as equal, and how close to 0 and 1 a probability may come."""

from __future__ import annotations

TIE = 1e-12
"""Weight sums that differ by less than this are tied, and a confidence within this of δ reaches δ: rounding
must not decide a vote."""

EPSILON = 1e-6
"""The paper's ε: the smallest variance, and the smallest distance of a probability from 0 and 1."""


def clip(value: float) -> float:
    """Clip an estimate to [0, 1], so that it is a probability."""
    return 0.0 if value <= 0.0 else 1.0 if value >= 1.0 else value
