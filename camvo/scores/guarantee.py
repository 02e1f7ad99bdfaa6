"""The selective guarantee: accept every label with score ≥ s, and at least 97% of them are right.

People look at it again and again and stop when they like what they see. An interval made for one look, such
as Clopper and Pearson's, is then wrong far more often than it says. Here every threshold s of a fixed grid
has a fortune that starts at 1 and bets, at every audited label with a score of at least s, that more than a
share m of such labels are right: it is multiplied by 1 + λ(r − m), r = 1 for a right label. If the share is
at most m, the fortune is a supermartingale, and by Ville's inequality the chance that it ever reaches G/α,
with G thresholds, is at most α/G; so whenever it does, the share is above m, with confidence 1 − α for all
thresholds and all looks together. λ = u/m is mixed over a fixed grid of u in (0, 1).

Betting and the beta-binomial mixture are the same thing for coins: a bet u is the likelihood ratio of
m + (1 − m)u to m, and u uniform is a mixture over the shares above m alone. The two-sided mixture spreads
over shares below m too, which cannot support the claim, and its bound is looser. A mixture of finitely many
bets is exact: nothing is integrated. The fortune depends on how many labels were right and wrong, not on
their order, so it is computed from counts, and an answer that is withdrawn is taken out by subtracting it.
A label that is right in part counts in both, which can only make the fortune smaller, since the logarithm is
concave.

What is certified is the mean, over the audited labels with a score of at least s so far, of their chance to
be right when they came. It holds when texts, models and calibration drift and when the score of a label hangs
on all that happened before; it says nothing about labels still to come, should they differ. It needs that
who is audited was decided by a coin before any vote, that the human saw no prediction, and that the score
was frozen before the human answered.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import logsumexp

from camvo.errors import InvalidParameterError
from camvo.typing import Array

GRID = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.975)
"""Thresholds that are watched unless others are given: fixed before any audit."""

_BETS = (np.arange(32) + 0.5) / 32
_HALVINGS = 50


@dataclass(frozen=True, slots=True)
class Certified:
    """A threshold that the audits support.

    Attributes:
        threshold: s; every label with at least this score may be accepted.
        bound: at least this share of them is right.
        audits: how many audited labels had such a score.
        right: how right these were, summed.
        freed: the share of all audited tasks that had such a score, hence of all tasks.
    """

    threshold: float
    bound: float
    audits: int
    right: float
    freed: float


class Guarantee:
    """Counts of audited labels by score, and what they certify.

    Args:
        grid: the thresholds s, ascending, in [0, 1]; they must not be chosen by looking at audits.
        target: the share that has to be right, in (0, 1).
        confidence: 1 − α, in (0, 1).

    Raises:
        InvalidParameterError: a parameter out of range.
    """

    def __init__(self, grid: Sequence[float] = GRID, target: float = 0.97, confidence: float = 0.95) -> None:
        rising = all(low < high for low, high in pairwise(grid))
        if not grid or not rising or not (grid[0] >= 0.0 and grid[-1] <= 1.0):
            raise InvalidParameterError(f"thresholds are in [0, 1] and ascend, got {list(grid)}")
        if not (0.0 < target < 1.0 and 0.0 < confidence < 1.0):
            raise InvalidParameterError(f"target and confidence are in (0, 1), got {target} and {confidence}")
        self.grid = tuple(grid)
        self.target = target
        self.confidence = confidence
        self.counts: Array = np.zeros((len(grid) + 1, 2))
        """Audited labels by cell and by wrong (0) and right (1); cell 0 is below all thresholds."""

    def update(self, audits: Iterable[tuple[float, float]], sign: int = 1) -> None:
        """Add (+1) or withdraw (−1) audited labels: the frozen score, and how right each was.

        Raises:
            InvalidParameterError: a score or a reward outside [0, 1].
        """
        for score, right in audits:
            if not (0.0 <= score <= 1.0 and 0.0 <= right <= 1.0):
                raise InvalidParameterError(f"scores and rewards are in [0, 1], got {score} and {right}")
            cell = int(np.searchsorted(self.grid, score, side="right"))
            self.counts[cell] += (sign * (1.0 - right), sign * right)

    def log_wealth(self, share: float) -> Array:
        """The logarithm of each threshold's fortune from betting on more than ``share``, shape (G,)."""
        return _log_wealth(*self._above, np.full(len(self.grid), share))

    @property
    def bounds(self) -> Array:
        """For each threshold, a share that is exceeded with the confidence, at every look; shape (G,)."""
        low: Array = np.zeros(len(self.grid))
        high: Array = np.ones(len(self.grid))
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            won = _log_wealth(*self._above, middle) >= self._stake
            low, high = np.where(won, middle, low), np.where(won, high, middle)
        return low

    def certified(self) -> Certified | None:
        """The smallest threshold above which the target is certified; ``None`` where no data support one."""
        won = self.log_wealth(self.target) >= self._stake
        if not won.any():
            return None
        at = int(won.argmax())
        wrong, right = (float(count[at]) for count in self._above)
        return Certified(
            threshold=self.grid[at],
            bound=float(self.bounds[at]),
            audits=round(wrong + right),
            right=right,
            freed=(wrong + right) / float(self.counts.sum()),
        )

    @property
    def _stake(self) -> float:
        """The logarithm of G/α, which a fortune has to reach."""
        return math.log(len(self.grid) / (1.0 - self.confidence))

    @property
    def _above(self) -> tuple[Array, Array]:
        """How many labels at or above each threshold were wrong, and how many right; shapes (G,)."""
        wrong, right = self.counts[:0:-1].cumsum(axis=0)[::-1].T
        return wrong, right


def _log_wealth(wrong: Array, right: Array, shares: Array) -> Array:
    gain = np.log1p(_BETS * ((1.0 - shares) / shares)[:, None])
    grown = right[:, None] * gain + wrong[:, None] * np.log1p(-_BETS)
    return np.asarray(logsumexp(grown, axis=1) - math.log(len(_BETS)), dtype=np.float64)
