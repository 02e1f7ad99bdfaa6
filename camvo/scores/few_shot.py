"""Whether examples in the prompt help a model, from rounds that showed or omitted them at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import betainc

from camvo.typing import Array

MIN_SHARE: Final = 0.1
"""The smallest share of rounds with examples, and of rounds without: both must be tried to be compared."""

_GRID_CELLS: Final = 4096


@dataclass(frozen=True, slots=True)
class ExampleTrial:
    """A model's votes on human-labelled rounds, with and without examples in the prompt.

    Attributes:
        right_with: the sum of rewards of its votes with examples.
        votes_with: the number of its votes with examples.
        right_without: the sum of rewards of its votes without examples.
        votes_without: the number of its votes without examples.
    """

    right_with: float = 0.0
    votes_with: int = 0
    right_without: float = 0.0
    votes_without: int = 0

    @property
    def helps(self) -> float:
        """The probability that the model is right more often with examples, in [0, 1].

        Both accuracies have uniform priors, so their posteriors are Beta distributions.
        """
        edges = np.linspace(0.0, 1.0, _GRID_CELLS + 1, dtype=np.float64)
        middles: Array = (edges[1:] + edges[:-1]) / 2.0
        mass = np.diff(_accuracy_below(self.right_with, self.votes_with, edges))
        return float(mass @ _accuracy_below(self.right_without, self.votes_without, middles))

    @property
    def share(self) -> float:
        """The share of rounds to show examples in: :attr:`helps`, clipped so that both ways are tried."""
        return min(max(self.helps, MIN_SHARE), 1.0 - MIN_SHARE)


def _accuracy_below(right: float, votes: int, share: Array) -> Array:
    """The probability that the accuracy is below each value of ``share``, in the shape of ``share``."""
    return np.asarray(betainc(1.0 + right, 1.0 + votes - right, share), dtype=np.float64)
