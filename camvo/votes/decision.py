"""The decision on one question after the votes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Decision:
    """The label of one question; ``score`` is the probability that it is right given the votes that came.

    For a number or a ranking ``label`` is its text, ``score`` the reward it can expect, and ``posterior``
    holds nothing else. ``trust`` in [0, 1] is how far what human labels taught proved right on rounds
    that were held out; 0 where the policy does not learn from them.

    >>> decision = Decision("pos", 0.9, {"neg": 0.1, "pos": 0.9})
    >>> decision.label, decision.score
    ('pos', 0.9)
    """

    label: str
    score: float
    posterior: Mapping[str, float]
    trust: float = 0.0
