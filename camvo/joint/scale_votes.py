"""A model of the votes on ordered labels: each arm has a bias and a spread on the scale.

An item has a level among the M labels, which is what its votes have in common. Given it, arms vote
independently: arm k says the label nearest to level + bias + noise, whose spread is its own, or the same on
half of the scale or on the reversed one. Its confusion matrix is that of the bias and the spread where it has
few votes, and its own where it has many. The model predicts votes; which label is right is another question
(:mod:`camvo.joint.scale_readings`), because the level where models agree need not be that of people.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from scipy.special import ndtr

from camvo.joint.votes import Rows
from camvo.numerics.small import EPSILON
from camvo.typing import Array

_STEPS: Final = 30
_PULL: Final = 15.0
"""How many votes on items of one level the bias and the spread count as."""

_STRAY: Final = 0.02
"""The share of votes that fall on any label."""

_BIASES, _SPREADS = 9, 9
_SLOPES: Final = (1.0, 0.5, -1.0)
_SLOPE_LOGS: Final = (0.0, -2.0, -4.0)
"""The log-prior of each slope: few arms use the middle of the scale only, fewer read it backwards."""

_USUAL_BIAS, _USUAL_SPREAD, _SPREAD_LOG = 0.17, 0.27, 0.5
"""The prior of a bias and of a spread, as shares of the scale's length, and the deviation of log-spreads."""

_LEVEL_ROUNDS: Final = 10.0
"""How many rounds the prior counts as that all levels are as frequent."""

_START: Final = 0.7
"""The spread, in steps, of the levels around the mean vote from which the fit starts."""


@dataclass(frozen=True, slots=True, eq=False)
class ScaleVotes:
    """A fitted model of the votes of K arms on a scale of M labels.

    Attributes:
        confusions: the probability of each vote at each level, shape (K, M, M), levels first.
        share: the share of items at each level, shape (M,).
    """

    confusions: Array
    share: Array

    def levels(self, rows: Rows) -> tuple[Array, Array]:
        """The probability of each level, shape (P, M), and the votes' log-probability, shape (P,)."""
        logs = np.tile(np.log(self.share), (len(rows), 1))
        for confusion, votes in zip(np.log(self.confusions), rows.T, strict=True):
            cast = votes >= 0
            logs[cast] += confusion.T[votes[cast]]
        top = logs.max(axis=1, keepdims=True)
        mass = np.exp(logs - top)
        sums = mass.sum(axis=1, keepdims=True)
        return mass / sums, (np.log(sums) + top)[:, 0]

    def expected(self, rows: Rows) -> Array:
        """The probability of each vote, shape (P, K, M): 1 for a vote that was cast."""
        levels, _ = self.levels(rows)
        labels = np.arange(len(self.share))
        expected = np.einsum("pz,kzv->pkv", levels, self.confusions)
        return np.where((rows >= 0)[:, :, None], rows[:, :, None] == labels, expected)

    @classmethod
    def fit(cls, rows: Rows, counts: Array, labels: int) -> ScaleVotes:
        """Fit the model by EM to votes alone: positions on the scale, shape (P, K), and how often each."""
        said = rows[:, :, None] == np.arange(labels)
        cast = np.maximum(said.sum(axis=(1, 2)), 1)
        centre = (said @ np.arange(labels)).sum(axis=1) / cast
        levels = np.exp(-0.5 * ((np.arange(labels) - centre[:, None]) / _START) ** 2)
        levels /= levels.sum(axis=1, keepdims=True)
        model = cls(np.zeros(0), np.zeros(0))
        for _ in range(_STEPS):
            weight = levels * counts[:, None]
            by_level = np.moveaxis(np.tensordot(weight, said.astype(np.float64), axes=(0, 0)), 0, 1)
            share = weight.sum(axis=0) + _LEVEL_ROUNDS / labels
            model = cls(_confusions(by_level), share / share.sum())
            levels, _ = model.levels(rows)
        return model


def _confusions(counts: Array) -> Array:
    """Each arm's confusion matrix from its votes by level, shapes (K, M, M)."""
    shapes, logs = _shapes(counts.shape[1])
    fit = np.tensordot(counts, np.log(shapes), axes=((1, 2), (1, 2))) + logs
    weight = np.exp(fit - fit.max(axis=1, keepdims=True))
    prior = np.tensordot(weight / weight.sum(axis=1, keepdims=True), shapes, axes=(1, 0))
    pulled = counts + _PULL * prior
    return np.asarray(pulled / pulled.sum(axis=2, keepdims=True), dtype=np.float64)


@lru_cache(maxsize=16)
def _shapes(labels: int) -> tuple[Array, Array]:
    """Confusion matrices by slope, bias and spread, shape (G, M, M), and their log-prior, shape (G,)."""
    length, levels = labels - 1.0, np.arange(labels)
    middle, cuts = length / 2.0, np.arange(labels - 1) + 0.5
    shapes, logs = [], []
    for slope, log_slope in zip(_SLOPES, _SLOPE_LOGS, strict=True):
        for bias in np.linspace(-0.5, 0.5, _BIASES) * length:
            for spread in np.geomspace(0.08, 1.3, _SPREADS) * length:
                centre = middle + slope * (levels - middle) + bias
                below = ndtr((cuts - centre[:, None]) / spread)
                votes = np.diff(below, axis=1, prepend=0.0, append=1.0)
                shapes.append((1.0 - _STRAY) * votes + _STRAY / labels)
                usual = np.log(spread / (_USUAL_SPREAD * length)) / _SPREAD_LOG
                logs.append(log_slope - 0.5 * (bias / (_USUAL_BIAS * length)) ** 2 - 0.5 * usual**2)
    return np.maximum(np.array(shapes), EPSILON), np.array(logs)
