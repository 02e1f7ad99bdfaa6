"""Calibration: a map from scores to probabilities of being right, learnt from human labels.

There are two families of maps. Both are monotone, so the order of the scores (and of the review queue) never
changes.

- Few labels: Beta calibration (Kull, Silva Filho and Flach, 2017), logit p = a·ln s − b·ln(1 − s) + c with
  a, b ≥ 0. Platt scaling of the logits is the special case a = b. A normal prior is centred on the identity,
  a = b = 1 and c = 0, so the map changes nothing without labels. Its covariance is that of the maps
  fitted to many kinds of synthetic tables. A few labels therefore move the map in the directions in which
  such maps differ.
- Many labels: isotonic regression (PAVA), which can take any monotone shape. The Beta map contributes
  observations worth :data:`_ANCHOR_LABELS` labels in all, spread over the scores. A range of scores without
  an error is therefore not mapped to certainty.

The isotonic map is used if its log loss over five folds is lower than the Beta map's by more than one
standard error of the difference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import isotonic_regression, minimize
from scipy.special import expit, logsumexp

from camvo.errors import InvalidParameterError
from camvo.numerics.small import EPSILON, clopper_pearson
from camvo.typing import Array

_PRIOR_MEAN = np.array((1.0, 1.0, 0.0))
_PRIOR_COVARIANCE = np.array(((1.2, -0.64, 1.1), (-0.64, 0.64, -0.9), (1.1, -0.9, 1.44)))
"""The prior of a, b and c. The deviation of the map's logit is 0.4 at a score of 0.5, and 0.9 at 0.9."""

_GATE = 1.0
"""The isotonic map has to be better by this many standard errors."""

_ANCHOR_LABELS, _ANCHOR_POINTS = 20.0, 50
"""The Beta map's weight in the isotonic map, in labels, and the number of scores it is spread over."""

_FOLDS = 5
_FEWEST_ISOTONIC = 200
"""The isotonic map is not tried with fewer labels than this."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """A monotone map of [0, 1] into itself."""

    knots: tuple[float, ...] = ()
    values: tuple[float, ...] = ()
    slopes: tuple[float, float] = (1.0, 1.0)
    shift: float = 0.0
    labels: int = 0

    def __call__(self, scores: ArrayLike) -> Array:
        """Map scores of any shape to probabilities of the same shape; scores are clipped to [0, 1]."""
        inside = np.clip(np.asarray(scores, dtype=np.float64), 0.0, 1.0)
        if self.knots:
            return np.asarray(np.interp(inside, self.knots, self.values), dtype=np.float64)
        return np.asarray(expit(_features(inside) @ np.array((*self.slopes, self.shift))), dtype=np.float64)


IDENTITY = Calibration()
"""The calibration before the first label."""


def fit_calibration(scores: ArrayLike, right: ArrayLike) -> Calibration:
    """Fit the Beta map or the isotonic map to human labels; without labels it is the identity.

    A score in [0, 1] was fixed before a human saw the label; ``right`` is the label's reward by the human's
    answer. The same labels in the same order give the same map.
    """
    s, r = np.asarray(scores, dtype=np.float64), np.asarray(right, dtype=np.float64)
    if s.ndim != 1 or s.shape != r.shape or not (_inside(s) and _inside(r)):
        raise InvalidParameterError(
            f"need as many scores as outcomes, all in [0, 1], got shapes {s.shape} and {r.shape}"
        )
    beta = _fit_beta_map(s, r)
    if len(s) < _FEWEST_ISOTONIC:
        return beta
    gain = _isotonic_gains(s, r)
    return _fit_isotonic(s, r, beta) if gain.mean() > _GATE * gain.std() / np.sqrt(len(s)) else beta


def _isotonic_gains(scores: Array, right: Array) -> Array:
    """How much lower the isotonic map's log loss on each held-out label is, in nats, shape (n,)."""
    fold_of = np.arange(len(scores)) % _FOLDS
    gain = np.zeros(len(scores))
    for fold in range(_FOLDS):
        others, held = fold_of != fold, fold_of == fold
        beta = _fit_beta_map(scores[others], right[others])
        isotonic = _fit_isotonic(scores[others], right[others], beta)
        beta_loss = _log_loss(beta(scores[held]), right[held])
        gain[held] = beta_loss - _log_loss(isotonic(scores[held]), right[held])
    return gain


def _fit_beta_map(scores: Array, right: Array) -> Calibration:
    """The Beta map with the highest posterior density (maximum a posteriori)."""
    features, precision = _features(scores), np.linalg.inv(_PRIOR_COVARIANCE)

    def loss(x: Array) -> tuple[float, Array]:
        eta, pull = features @ x, precision @ (x - _PRIOR_MEAN)
        value = (np.logaddexp(0.0, eta) - right * eta).sum() + 0.5 * pull @ (x - _PRIOR_MEAN)
        return float(value), features.T @ (expit(eta) - right) + pull

    bounds = [(0.0, None), (0.0, None), (None, None)]
    a, b, shift = minimize(loss, _PRIOR_MEAN, jac=True, method="L-BFGS-B", bounds=bounds).x.tolist()
    return Calibration(slopes=(a, b), shift=shift, labels=len(scores))


def _fit_isotonic(scores: Array, right: Array, beta: Calibration) -> Calibration:
    """The isotonic map of the labels and the Beta map's observations: constant blocks, linear in between."""
    anchors = np.quantile(scores, np.linspace(0.0, 1.0, _ANCHOR_POINTS))
    s, r = np.concatenate((scores, anchors)), np.concatenate((right, beta(anchors)))
    weights = np.concatenate((np.ones(len(scores)), np.full(_ANCHOR_POINTS, _ANCHOR_LABELS / _ANCHOR_POINTS)))
    s, group = np.unique(s, return_inverse=True)
    weight = np.bincount(group, weights)
    fitted = isotonic_regression(np.bincount(group, weights * r) / weight, weights=weight)
    edges = np.unique(np.concatenate((fitted.blocks[:-1], fitted.blocks[1:] - 1)))
    return Calibration(
        tuple(s[edges].tolist()), tuple(fitted.x[edges].tolist()), beta.slopes, beta.shift, beta.labels
    )


def _features(scores: Array) -> Array:
    """The features ln s, −ln(1 − s) and 1, with s clipped to [ε, 1 − ε]; shape (…, 3)."""
    inside = np.clip(scores, EPSILON, 1.0 - EPSILON)
    return np.stack((np.log(inside), -np.log1p(-inside), np.ones_like(inside)), axis=-1)


def _log_loss(chances: Array, right: Array) -> Array:
    """The log loss of each label in nats, shape (n,), from probabilities and rewards, each of shape (n,)."""
    inside = np.clip(chances, EPSILON, 1.0 - EPSILON)
    return np.asarray(-(right * np.log(inside) + (1.0 - right) * np.log1p(-inside)), dtype=np.float64)


def _inside(values: Array) -> bool:
    """Whether all values are in [0, 1]."""
    return bool(np.all((values >= 0.0) & (values <= 1.0)))


BINS = 15
"""The number of bins of a reliability diagram and of the ECE."""


@dataclass(frozen=True, slots=True, eq=False)
class _Reliability:
    """The data of a reliability diagram: B bins of equal width over the scores in [0, 1]."""

    counts: NDArray[np.int64]
    score: Array
    accuracy: Array


def reliability(
    labels: NDArray[np.int64], scores: Array, truth: NDArray[np.int64], bins: int = BINS
) -> _Reliability:
    """Sort items into the bins of a reliability diagram.

    The ECE is the mean of |accuracy − score| weighted by the counts. A score on the edge of two bins belongs
    to the lower one. Items without an answer (label −1) or a known truth (−1) are ignored. All arrays have
    shape (n,).
    """
    counted = (truth >= 0) & (labels >= 0)
    score, right = scores[counted], labels[counted] == truth[counted]
    bin_of = np.clip(np.ceil(score * bins).astype(np.int64) - 1, 0, bins - 1)
    counts = np.bincount(bin_of, minlength=bins)
    divisor = np.where(counts > 0, counts, np.nan)
    return _Reliability(
        counts,
        np.bincount(bin_of, score, minlength=bins) / divisor,
        np.bincount(bin_of, right, minlength=bins) / divisor,
    )


def risk_curve(labels: NDArray[np.int64], scores: Array, truth: NDArray[np.int64]) -> Array:
    """The error rate among the m items with the highest scores, for m = 1 … n items with known truth.

    Its mean is the AURC. Items with equal scores are averaged over all their orders. Items without an answer
    are wrong, and come last. Labels and truth are positions, shape (N,), −1 for none.
    """
    known = truth >= 0
    doubt = np.where(labels[known] >= 0, -scores[known], np.inf)
    wrong = (labels[known] != truth[known]).astype(np.float64)
    _, group, sizes = np.unique(doubt, return_inverse=True, return_counts=True)
    rates = np.bincount(group, wrong) / sizes
    errors: Array = np.cumsum(np.repeat(rates, sizes)) / np.arange(1, len(wrong) + 1)
    return errors


_LEVEL = 0.02
"""α, the probability of ever raising a false alarm about a question, over both directions."""

_TOLERANCE = 0.05
"""By how much a score may differ from the share right without an alarm."""

_LEAST = 10
"""The fewest labels for an alarm."""

_LATEST = 100
"""The number of labels that decide whether an alarm is over."""

_BETS = np.array([0.4, 0.8, 1.6, 3.2])
"""|λ|: the odds are e^0.4 to e^3.2 times as high, or as low, as promised."""


@dataclass(frozen=True, slots=True)
class ScoreCheck:
    """The scores of the latest labels, and whether people found these labels right.

    Attributes:
        count: the number of these labels.
        score: their mean score.
        share: how many of them were right.
        low: the lower bound of the 95% interval of that (Clopper and Pearson).
        high: the upper bound.
        off: whether scores are too ``high`` or too ``low``; ``None`` if nothing says so.
    """

    count: int
    score: float
    share: float
    low: float
    high: float
    off: Literal["high", "low"] | None

    @classmethod
    def of(cls, labels: Sequence[tuple[float, float]]) -> ScoreCheck | None:
        """Check scores against people's answers; ``None`` without a label.

        Args:
            labels: the score that was fixed before the answer, and the reward, each in [0, 1], in the order
                in which labels were predicted.
        """
        if not labels:
            return None
        scores, rewards = np.asarray(labels, dtype=np.float64).T
        latest_scores, latest_rewards = scores[-_LATEST:], rewards[-_LATEST:]
        low, high = clopper_pearson(float(latest_rewards.sum()), len(latest_rewards))
        mean = float(latest_scores.mean())
        needed = math.log(2.0 / _LEVEL)
        off: Literal["high", "low"] | None = None
        if len(labels) >= _LEAST:
            if mean - _TOLERANCE > high and _evidence(scores - _TOLERANCE, rewards, -_BETS) >= needed:
                off = "high"
            elif mean + _TOLERANCE < low and _evidence(scores + _TOLERANCE, rewards, _BETS) >= needed:
                off = "low"
        return cls(len(latest_rewards), mean, float(latest_rewards.mean()), low, high, off)


def _evidence(promised: Array, rewards: Array, bets: Array) -> float:
    """The logarithm of the wealth, spread evenly over the bets."""
    share = np.clip(promised, 0.0, 1.0)[:, None]
    factors = rewards[:, None] * bets - np.log(1.0 - share + share * np.exp(bets))
    return float(logsumexp(factors.sum(axis=0)) - math.log(len(bets)))
