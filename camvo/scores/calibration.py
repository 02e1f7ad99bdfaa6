"""Calibration: from a score to the probability of being right, learnt from labels that people confirmed.

Two families, both monotone, so that the order of the scores (hence of the review queue) never changes:

- few labels: Beta calibration (Kull, Silva Filho and Flach, 2017), logit p = a·ln s − b·ln(1 − s) + c with
  a, b ≥ 0, which has Platt's line through the logits as a = b. A normal prior holds it at the identity, a =
  b = 1 and c = 0: without labels the map changes nothing, and a handful cannot turn it over.
- many labels: isotonic regression (PAVA), which can take any shape. The Beta map enters it as observations
  worth :data:`_ANCHOR` labels in all, spread over the scores, so that no stretch without an error is taken
  for a certainty.

The isotonic map is used where it predicts better: its log loss over five folds is lower than the Beta map's
by more than two standard errors of the difference. That takes thousands of labels, or scores that are far off
in a way that no Beta map mends.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression, minimize
from scipy.special import expit

from camvo.errors import InvalidParameterError
from camvo.numerics.tolerances import EPSILON
from camvo.typing import Array

_SLOPE, _SHIFT = 0.2, 0.3
"""Standard deviations of the prior: of a and b around 1, and of c around 0."""

_ANCHOR, _POINTS = 20.0, 50
"""How many labels the Beta map is worth within the isotonic one, and over how many scores they spread."""

_FOLDS = 5
_FEW = 200
"""Below this many labels the isotonic map is not even tried."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """A monotone map of [0, 1] into itself.

    Attributes:
        knots: ascending scores; none in the Beta map.
        values: the probability at each knot, not descending; linear in between, level beyond the last.
        slopes: a and b of the Beta map, used where there are no knots.
        shift: its c.
        labels: how many labels it was fitted to.
    """

    knots: tuple[float, ...] = ()
    values: tuple[float, ...] = ()
    slopes: tuple[float, float] = (1.0, 1.0)
    shift: float = 0.0
    labels: int = 0

    def __call__(self, scores: ArrayLike) -> Array:
        """The probabilities, of the shape of ``scores``; what is outside [0, 1] is clipped into it."""
        inside = np.clip(np.asarray(scores, dtype=np.float64), 0.0, 1.0)
        if self.knots:
            return np.asarray(np.interp(inside, self.knots, self.values), dtype=np.float64)
        return np.asarray(expit(_features(inside) @ np.array((*self.slopes, self.shift))), dtype=np.float64)


IDENTITY = Calibration()
"""What is used before the first label."""


def fit_calibration(scores: ArrayLike, right: ArrayLike) -> Calibration:
    """The map that fits the labels; the identity without any. The same labels give the same map.

    Args:
        scores: what the labels scored before people saw them, in [0, 1], shape (n,).
        right: how right each was, in [0, 1] (0 or 1 for labels), shape (n,).

    Raises:
        InvalidParameterError: the shapes differ, or a value is outside [0, 1].
    """
    s, r = np.asarray(scores, dtype=np.float64), np.asarray(right, dtype=np.float64)
    if s.ndim != 1 or s.shape != r.shape or not (_inside(s) and _inside(r)):
        raise InvalidParameterError(
            f"need as many scores as outcomes, all in [0, 1], got shapes {s.shape} and {r.shape}"
        )
    smooth = _beta(s, r)
    if len(s) < _FEW:
        return smooth
    fold = np.arange(len(s)) % _FOLDS
    gain = np.zeros(len(s))
    for held in range(_FOLDS):
        known, asked = fold != held, fold == held
        beta = _beta(s[known], r[known])
        free = _isotonic(s[known], r[known], beta)
        gain[asked] = _loss(beta(s[asked]), r[asked]) - _loss(free(s[asked]), r[asked])
    if gain.mean() > 2.0 * gain.std() / np.sqrt(len(s)):
        return _isotonic(s, r, smooth)
    return smooth


def _beta(scores: Array, right: Array) -> Calibration:
    """The Beta map with the highest posterior density."""
    features, prior = _features(scores), np.array((1.0, 1.0, 0.0))
    scale = np.array((_SLOPE, _SLOPE, _SHIFT))

    def loss(x: Array) -> tuple[float, Array]:
        eta, off = features @ x, (x - prior) / scale
        value = (np.logaddexp(0.0, eta) - right * eta).sum() + 0.5 * off @ off
        return float(value), features.T @ (expit(eta) - right) + off / scale

    bounds = [(0.0, None), (0.0, None), (None, None)]
    a, b, shift = minimize(loss, prior, jac=True, method="L-BFGS-B", bounds=bounds).x.tolist()
    return Calibration(slopes=(a, b), shift=shift, labels=len(scores))


def _isotonic(scores: Array, right: Array, beta: Calibration) -> Calibration:
    """The isotonic map through the labels and the Beta map's observations: level blocks, lines between."""
    anchors = np.quantile(scores, np.linspace(0.0, 1.0, _POINTS))
    s, r = np.concatenate((scores, anchors)), np.concatenate((right, beta(anchors)))
    weights = np.concatenate((np.ones(len(scores)), np.full(_POINTS, _ANCHOR / _POINTS)))
    s, same = np.unique(s, return_inverse=True)
    weight = np.bincount(same, weights)
    found = isotonic_regression(np.bincount(same, weights * r) / weight, weights=weight)
    edges = np.unique(np.concatenate((found.blocks[:-1], found.blocks[1:] - 1)))
    return Calibration(
        tuple(s[edges].tolist()), tuple(found.x[edges].tolist()), beta.slopes, beta.shift, beta.labels
    )


def _features(scores: Array) -> Array:
    """The features ln s, −ln(1 − s) and 1, with s clipped to [ε, 1 − ε]; shape (…, 3)."""
    inside = np.clip(scores, EPSILON, 1.0 - EPSILON)
    return np.stack((np.log(inside), -np.log1p(-inside), np.ones_like(inside)), axis=-1)


def _loss(chances: Array, right: Array) -> Array:
    """The log loss of each label."""
    inside = np.clip(chances, EPSILON, 1.0 - EPSILON)
    return np.asarray(-(right * np.log(inside) + (1.0 - right) * np.log1p(-inside)), dtype=np.float64)


def _inside(values: Array) -> bool:
    return bool(np.all((values >= 0.0) & (values <= 1.0)))
