"""Whether examples in the prompt help a model, from rounds in which a coin showed them or left them out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import betainc

from camvo.typing import Array

FEWEST: Final = 0.1
"""The least share of rounds with examples, and without: what is not tried any more cannot be compared."""

_GRID: Final = 4096


@dataclass(frozen=True, slots=True)
class ExampleTrial:
    """How many of a model's votes were right by human labels, of how many, with examples and without."""

    right_with: float = 0.0
    votes_with: int = 0
    right_without: float = 0.0
    votes_without: int = 0

    @property
    def helps(self) -> float:
        """The probability that its votes are more often right with examples.

        Both shares are unknown and uniform beforehand, so they have Beta distributions.
        """
        edges = np.linspace(0.0, 1.0, _GRID + 1, dtype=np.float64)
        middles: Array = (edges[1:] + edges[:-1]) / 2.0
        mass = np.diff(_below(self.right_with, self.votes_with, edges))
        return float(mass @ _below(self.right_without, self.votes_without, middles))

    @property
    def share(self) -> float:
        """The share of rounds in which it is to be shown examples: that probability, but always both."""
        return min(max(self.helps, FEWEST), 1.0 - FEWEST)


def _below(right: float, votes: int, share: Array) -> Array:
    """The probability that the share of right votes is below each of these."""
    return np.asarray(betainc(1.0 + right, 1.0 + votes - right, share), dtype=np.float64)
