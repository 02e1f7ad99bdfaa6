"""When two numbers count as equal, and how far probabilities stay from 0 and 1."""

from __future__ import annotations

TIE = 1e-12
"""Weights whose sums differ by less than this are tied, and a confidence that falls short of δ by less
reaches it: rounding must not decide a vote."""

EPSILON = 1e-6
"""The paper's ε: the smallest variance, and the distance that a Beta density keeps from 0 and 1."""


def clip(value: float) -> float:
    """An estimate read as a probability: clipped to [0, 1]."""
    return 0.0 if value <= 0.0 else 1.0 if value >= 1.0 else value
