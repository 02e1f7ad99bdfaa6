"""Which arm to ask next, and when to stop: the best plan over the lattice, computed backwards.

Stopping at a node is worth the probability of its most probable label, or what other stops say
(:class:`Stops`). Asking an arm is worth the expected value of the node that its vote leads to, less its
price. Prices are converted by the worth of a right label. The plan knows every order of asking, and what may
follow each vote, so it neither stops because the next vote alone would change nothing, nor asks dear arms
after cheap ones have settled the label.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from camvo.joint.beliefs import Beliefs
from camvo.numerics.tolerances import TIE
from camvo.typing import Array

_STEP: Final = 0.05
"""The steps of the logarithms of rounded prices."""

NEVER: Final = -1e9
"""The value of what must not happen. It is finite, so that its product with a probability of 0 is 0."""


class Stops(Hashable, Protocol):
    """What stopping is worth, in any unit of value. Hashable, because plans are cached."""

    def stopping(self, beliefs: Beliefs) -> Array:
        """The value of stopping at each node with a vote, shape (N,)."""
        ...

    def finishing(self, beliefs: Beliefs, prices: Sequence[float]) -> Array | None:
        """The value of asking all arms that are left, also those outside the lattice, shape (N,).

        ``None`` if that is never considered.

        Args:
            beliefs: the beliefs at the nodes of K arms.
            prices: the price of each arm, in the unit of value, length K.
        """
        ...


class RightLabels:
    """Stopping is worth the probability of the most probable label. The unit of value is a right label."""

    def stopping(self, beliefs: Beliefs) -> Array:
        """See :meth:`Stops.stopping`."""
        return beliefs.surest

    def finishing(self, beliefs: Beliefs, prices: Sequence[float]) -> Array | None:
        """``None``."""
        return None


RIGHT_LABELS: Final[Stops] = RightLabels()


@dataclass(frozen=True, slots=True, eq=False)
class Worth:
    """The best plan for one list of prices.

    Attributes:
        beliefs: what is believed at the nodes.
        asking: the value of asking each arm at each node and of acting best from then on, shape (N, K); −∞
            for an arm that has voted.
        stopping: the value of stopping at each node, shape (N,); −∞ where nobody has voted.
        next_arm: the best arm to ask at each node, −1 to stop or to ask all that are left, shape (N,).
        finishing: the value of asking all arms that are left, shape (N,); ``None`` if it is not considered.
    """

    beliefs: Beliefs
    asking: Array
    stopping: Array
    next_arm: NDArray[np.int64]
    finishing: Array | None = None
    _together: dict[int, tuple[int, ...]] = field(default_factory=dict, repr=False)

    def at(self, node: int, tilt: float) -> tuple[float, list[float]]:
        """The value of stopping, and of asking each arm. Confidences, which tilt beliefs, are not known."""
        return float(self.stopping[node]), self.asking[node].tolist()

    def finishes(self, node: int, left: Sequence[int]) -> bool:
        """Whether all arms that are left are asked now, also those that the plan does not know.

        So it is if asking one after another would cost as much.

        Args:
            node: the votes so far.
            left: the positions of the arms that were not asked; one that gave no vote is not asked again.
        """
        if self.finishing is None:
            return False
        other = max(self.stopping[node], self.asking[node][[*left]].max(initial=-np.inf))
        return bool(self.finishing[node] >= other - TIE)

    def together(self, node: int, tilt: float = 0.0) -> tuple[int, ...]:
        """The arms to ask now: the best one, and those that are asked next whatever it votes.

        Empty if stopping is better, or asking all that are left.
        """
        if node not in self._together:
            self._together[node] = tuple(self._asked_from(node))
        return self._together[node]

    def _asked_from(self, node: int) -> Iterator[int]:
        frontier = np.array([node])
        while True:
            wanted = np.unique(self.next_arm[frontier])
            if len(wanted) != 1 or wanted[0] < 0:
                return
            yield int(wanted[0])
            after = np.unique(self.beliefs.lattice.after[wanted[0]][:, frontier])
            frontier = after[after >= 0]


def rounded(prices: tuple[float, ...]) -> tuple[float, ...]:
    """Prices in steps of 5%, so that tasks of nearly the same length share a plan that takes long."""
    return tuple([math.exp(_STEP * round(math.log(price) / _STEP)) if price else 0.0 for price in prices])


@lru_cache(maxsize=64)
def plan_by_worth(beliefs: Beliefs, prices: tuple[float, ...], stops: Stops = RIGHT_LABELS) -> Worth:
    """Compute the best plan, from the nodes where all arms have voted back to the node without votes.

    Args:
        beliefs: the beliefs at the nodes of K arms.
        prices: the price of each arm in the unit of ``stops``, length K.
        stops: what stopping is worth.
    """
    lattice = beliefs.lattice
    nodes, arms = lattice.rows.shape
    stopping = np.where((lattice.rows >= 0).any(axis=1), stops.stopping(beliefs), -np.inf)
    finishing = stops.finishing(beliefs, prices)
    value = stopping.copy() if finishing is None else np.maximum(stopping, finishing)
    asking = np.full((nodes, arms), -np.inf)
    next_arm = np.full(nodes, -1, dtype=np.int64)
    for at, level, level_votes in zip(lattice.levels, lattice.steps, beliefs.votes, strict=True):
        for step, votes in zip(level, level_votes, strict=True):
            # A vote that cannot follow has probability 0, whatever the value of the last node.
            asking[step.nodes, step.arm] = (votes * value[step.following]).sum(axis=0) - prices[step.arm]
        best = asking[at].argmax(axis=1)
        gained = asking[at, best]
        further = gained > value[at] + TIE
        next_arm[at] = np.where(further, best, -1)
        value[at] = np.where(further, gained, value[at])
    return Worth(beliefs, asking, stopping, next_arm, finishing)
