"""The selective guarantee: accept every label with score ≥ s, and at least 97% of them are right.

People look at the result repeatedly and stop when they like it. An interval made for a single look, such as
Clopper and Pearson's, is then wrong far more often than its level says. A *betting test* (test martingale)
stays valid under repeated looks:

- Each threshold s of a fixed grid runs one test of the hypothesis that at most a share m of its labels are
  right. A label belongs to the test if its score is at least s and it was audited.
- The test's wealth starts at 1. At each label it is multiplied by 1 + λ(r − m), with r = 1 for a right label
  and 0 for a wrong one. The bet λ = u/m is mixed over a fixed grid of u in (0, 1).
- If the hypothesis holds, the wealth is a supermartingale. By Ville's inequality it ever reaches 1/a with
  probability at most a. A threshold that may err with probability a therefore needs the wealth 1/a.
- The error α is split in two halves. One is shared equally by all G thresholds. The other half belongs to
  the highest threshold, which hands all it has to the next lower one once it is certified, and so on
  downwards (the *fallback procedure* of Wiens). The half from the top needs fewer labels where most scores
  are high. The shared half certifies a lower threshold where few scores reach the highest.

Betting and the beta-binomial mixture are equivalent for binary outcomes. A bet u is the likelihood ratio of
m + (1 − m)u to m, and a uniform u is a mixture over shares above m only. The two-sided mixture also spreads
over shares below m, which cannot support the claim, so its bound is looser. A mixture of finitely many bets
needs no integration. The grid of bets has equal weights at quantiles of Beta(1, ½), which prefers shares
near 1. At 97% it needs a sixth fewer labels than a uniform grid where none is wrong, as many where two are
wrong, and 3% more where five or ten are.

The wealth depends on how many labels were right and wrong, not on their order. It is computed from counts,
and a withdrawn answer is subtracted from them. A partly right label counts in both, which can only lower the
wealth, because the logarithm is concave.

The certified quantity is the mean, over all audited labels so far with a score of at least s, of their
probability of being right when they came. It says nothing about future labels from another distribution. What
is handed down presumes that a threshold whose share is above m stays above it; the shared half holds also if
texts, models and calibration drift, and if a label's score depends on all previous rounds. The test requires
that

- audits were chosen at random before any vote,
- they come in an order that was fixed before any answer, and none is left out
  (:mod:`camvo.scores.blind_queue`),
- the human saw no prediction,
- the score was fixed before the human answered, and
- the human's answer taught neither the label nor the score.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from camvo.errors import InvalidParameterError
from camvo.typing import Array

GRID = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.975)
"""The default thresholds, fixed before any audit."""

_BETS = 1.0 - (1.0 - (np.arange(32) + 0.5) / 32) ** 2
"""The grid of u = λm, shape (32,): quantiles of Beta(1, ½), all of the same weight."""

_LOG_LOSSES = np.log1p(-_BETS)
"""What a wrong label does to the log wealth of each bet, shape (32,)."""

_BISECTIONS = 50


@dataclass(frozen=True, slots=True)
class Certified:
    """A threshold that the audits certify.

    Attributes:
        threshold: s; labels with at least this score may be accepted.
        bound: at least this share of these labels is right, with the guarantee's confidence; the target, or
            more where the threshold's own part of the error allows it.
        audits: the number of audited labels with at least this score.
        right: the sum of their rewards.
        freed: the share of audited labels with at least this score, which estimates the share of all labels
            that need no review.
    """

    threshold: float
    bound: float
    audits: int
    right: float
    freed: float


class Guarantee:
    """A betting test per threshold, computed from counts of audited labels.

    Args:
        grid: the G thresholds s, ascending, in [0, 1]. They must be chosen without looking at audits.
        target: the required share of right labels, in (0, 1).
        confidence: 1 − α, in (0, 1).

    Raises:
        InvalidParameterError: a parameter is out of range.

    >>> guarantee = Guarantee(target=0.97)
    >>> guarantee.update([(0.96, 1.0)] * 300)  # 300 audited labels with the score 0.96, all of them right
    >>> guarantee.certified().audits
    300
    """

    def __init__(self, grid: Sequence[float] = GRID, target: float = 0.97, confidence: float = 0.95) -> None:
        rising = all(low < high for low, high in pairwise(grid))
        if not grid or not rising or not (grid[0] >= 0.0 and grid[-1] <= 1.0):
            raise InvalidParameterError(f"thresholds must be in [0, 1] and ascend, got {list(grid)}")
        if not (0.0 < target < 1.0 and 0.0 < confidence < 1.0):
            raise InvalidParameterError(
                f"target and confidence must be in (0, 1), got {target} and {confidence}"
            )
        self.grid = tuple(grid)
        self.target = target
        self.confidence = confidence
        self.counts: Array = np.zeros((len(grid) + 1, 2))
        """Audited labels by score cell and (wrong, right), shape (G + 1, 2). Cell 0 is below the grid."""

    def update(self, audits: Iterable[tuple[float, float]], sign: int = 1) -> None:
        """Add or withdraw audited labels.

        Args:
            audits: the score that was fixed before the human answered, and the reward, each in [0, 1].
            sign: +1 to add, −1 to withdraw.

        Raises:
            InvalidParameterError: a score or a reward is outside [0, 1].
        """
        for score, right in audits:
            if not (0.0 <= score <= 1.0 and 0.0 <= right <= 1.0):
                raise InvalidParameterError(f"scores and rewards must be in [0, 1], got {score} and {right}")
            cell = int(np.searchsorted(self.grid, score, side="right"))
            self.counts[cell] += (sign * (1.0 - right), sign * right)

    def log_wealth(self, share: float) -> Array:
        """The logarithm of each test's wealth against "at most ``share`` are right", shape (G,)."""
        return _log_wealth(*self._above, np.full(len(self.grid), share))

    @property
    def bounds(self) -> Array:
        """A lower bound of the share of right labels for each threshold, valid at every look, shape (G,).

        All bounds hold together. Each uses its threshold's own part of the error, nothing handed down.
        """
        required = -np.log(self._own_errors)
        low: Array = np.zeros(len(self.grid))
        high: Array = np.ones(len(self.grid))
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2.0
            exceeded = _log_wealth(*self._above, middle) >= required
            low, high = np.where(exceeded, middle, low), np.where(exceeded, high, middle)
        return low

    def certified(self) -> Certified | None:
        """Return the smallest certified threshold, or ``None`` if no threshold is certified."""
        at = self._smallest_certified()
        if at is None:
            return None
        wrong, right = (float(count[at]) for count in self._above)
        return Certified(
            threshold=self.grid[at],
            bound=max(self.target, float(self.bounds[at])),
            audits=round(wrong + right),
            right=right,
            freed=(wrong + right) / float(self.counts.sum()),
        )

    def threshold(self) -> float | None:
        """The smallest certified threshold, without the bound that :meth:`certified` computes."""
        at = self._smallest_certified()
        return None if at is None else self.grid[at]

    def _smallest_certified(self) -> int | None:
        """The index of the smallest certified threshold; each hands its error down once it is certified."""
        log_wealth, own, found, handed = self.log_wealth(self.target), self._own_errors, None, 0.0
        for at in reversed(range(len(self.grid))):
            error = own[at] + handed
            certified = log_wealth[at] >= -math.log(error)
            found, handed = (at, error) if certified else (found, 0.0)
        return found

    @property
    def _own_errors(self) -> Array:
        """Each threshold's own part of the error, shape (G,); they sum to α."""
        alpha = 1.0 - self.confidence
        errors: Array = np.full(len(self.grid), alpha / 2.0 / len(self.grid))
        errors[-1] += alpha / 2.0
        return errors

    @property
    def _above(self) -> tuple[Array, Array]:
        """The sums of wrong and of right labels at or above each threshold, each of shape (G,)."""
        wrong, right = self.counts[:0:-1].cumsum(axis=0)[::-1].T
        return wrong, right


def _log_wealth(wrong: Array, right: Array, shares: Array) -> Array:
    """The log wealth of each test, mixed over all bets; all arguments and the result have shape (G,)."""
    gain = np.log1p(_BETS * ((1.0 - shares) / shares)[:, None])
    log_wealth = right[:, None] * gain + wrong[:, None] * _LOG_LOSSES
    most = log_wealth.max(axis=1)
    mean = np.exp(log_wealth - most[:, None]).mean(axis=1)
    return np.asarray(most + np.log(mean), dtype=np.float64)
