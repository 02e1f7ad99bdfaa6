"""The share of all labels that are right, estimated from scores and from labels that people reviewed.

People choose what they review, often the labels with the lowest scores, so the share of reviewed labels that
were right is not the share of all. The score says how the others compare: a label is right with probability
σ(x + a + (b − 1)(x − x̄)), where x is the log-odds of its score and x̄ their mean over all labels. The shift a
and the slope b are learnt from the reviewed labels. With a = 0 and b = 1 scores are right as they are, which
is what the prior expects, loosely. Which labels were reviewed may depend on their scores in any way.

The posterior is computed on a grid, so it needs no approximation where all or none of the labels were right.
The estimate counts the reviewed labels as they are, and lets chance decide about each of the others. It says
nothing about people who agree with a prediction because they saw it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtr
from scipy.stats import lognorm, t

from camvo.errors import InvalidParameterError
from camvo.typing import Array

_BINS = 100
"""The bins of the score into which labels are sorted, which keeps the work independent of their number."""

_SHIFTS = np.linspace(-8.0, 8.0, 81)
_SLOPES = np.exp(np.linspace(-2.5, 1.5, 25))

_LOG_PRIOR = (
    t.logpdf(_SHIFTS / 3.0, df=3)[:, None]
    + lognorm.logpdf(_SLOPES, s=1.0)[None, :]
    + np.log(_SLOPES)[None, :]  # the grid is even in the logarithm
)
"""Heavy tails for the shift, since scores can be far off; slopes mostly between 1/5 and 5. Shape (A, B)."""

_BISECTIONS = 40


@dataclass(frozen=True, slots=True)
class EstimatedShare:
    """An estimated share with the bounds of its 95% interval, each in [0, 1]."""

    share: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ScoreCounts:
    """Labels sorted by their scores into 100 bins of equal width.

    Attributes:
        labels: how many labels each bin has, shape (100,).
        checked: how many of them people reviewed, shape (100,).
        right: the sum of these labels' rewards, shape (100,).
    """

    labels: Array
    checked: Array
    right: Array

    @classmethod
    def of(cls, scores: Sequence[float], checked: Sequence[tuple[float, float]]) -> ScoreCounts:
        """Sort the scores of all labels, and (score, reward) of the reviewed ones, which are among them."""
        labels: Array = np.zeros(_BINS)
        reviewed, right = np.zeros(_BINS), np.zeros(_BINS)
        np.add.at(labels, score_bin(np.asarray(scores, dtype=np.float64)), 1.0)
        for score, reward in checked:
            place = int(score_bin(np.asarray(score)))
            reviewed[place] += 1.0
            right[place] += reward
        return cls(labels, reviewed, right)


def score_bin(scores: Array) -> NDArray[np.int64]:
    """The bin of each score in [0, 1]; the result has the shape of the argument."""
    return np.minimum((scores * _BINS).astype(np.int64), _BINS - 1)


def corrected_share(counts: ScoreCounts, level: float = 0.95) -> EstimatedShare:
    """Estimate the share of all labels that are right.

    Args:
        counts: all labels and the reviewed ones, by score.
        level: the probability of the interval, in (0, 1).

    Raises:
        InvalidParameterError: there is no label, more are reviewed than there are, or the level is off.

    >>> counts = ScoreCounts.of([0.9] * 100, [(0.9, 1.0)] * 15 + [(0.9, 0.0)] * 15)
    >>> round(corrected_share(counts).share, 1)
    0.5
    """
    total, open_ = float(counts.labels.sum()), counts.labels - counts.checked
    if total <= 0.0 or np.any(open_ < 0.0) or not 0.0 < level < 1.0:
        raise InvalidParameterError("need labels, reviewed ones among them, and a level in (0, 1)")
    chance, filled = _chances(counts.labels)
    right, open_ = counts.right[filled], open_[filled]
    wrong = counts.checked[filled] - right
    log_weight = _LOG_PRIOR + np.log(chance) @ right + np.log1p(-chance) @ wrong
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    mean = (right.sum() + chance @ open_) / total
    deviation = np.sqrt((chance * (1.0 - chance)) @ open_) / total
    tail = (1.0 - level) / 2.0
    return EstimatedShare(
        share=float((weight * mean).sum()),
        low=_quantile(weight, mean, deviation, tail),
        high=_quantile(weight, mean, deviation, 1.0 - tail),
    )


def _chances(labels: Array) -> tuple[Array, NDArray[np.intp]]:
    """The probability of being right for each shift, slope and bin with labels, and which bins these are.

    Returns:
        Shapes (A, B, bins with labels) and (bins with labels,).
    """
    filled = np.flatnonzero(labels)
    odds = logit((filled + 0.5) / _BINS)
    middle = float(odds @ labels[filled] / labels.sum())
    shifted = odds + _SHIFTS[:, None, None] + (_SLOPES[:, None] - 1.0) * (odds - middle)
    return np.clip(expit(shifted), 1e-9, 1.0 - 1e-9), filled


def _quantile(weight: Array, mean: Array, deviation: Array, tail: float) -> float:
    """A quantile of the mixture of normal distributions, by bisection."""
    low, high, spread = 0.0, 1.0, np.maximum(deviation, 1e-9)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2.0
        below = float((weight * ndtr((middle - mean) / spread)).sum()) < tail
        low, high = (middle, high) if below else (low, middle)
    return (low + high) / 2.0
