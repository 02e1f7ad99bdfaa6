"""The model of votes for two labels: each arm has an accuracy for each label (two coins).

An arm k votes for the right label with probability p_k0 if label 0 is right, and p_k1 if label 1 is. One
accuracy for both labels takes two services that lean to the same label for two good ones. The model is that
of Dawid and Skene (1979), with priors, fitted by EM to nothing but votes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from camvo.joint.lattice import Lattice
from camvo.joint.models.explained import Explained
from camvo.joint.vote_rows import Rows, distinct
from camvo.typing import Array

_STEPS: Final = 40
_PULL: Final = 25.0
"""How many rounds pull an arm's accuracy for one label towards its accuracy for both."""

_PRIOR_ACCURACY, _PRIOR_ROUNDS = 0.75, 20.0
"""The prior of an arm's accuracy for both labels."""

_SHARE_ROUNDS: Final = 10.0
"""How many rounds of each label the prior of the labels' shares counts as."""

_LOWEST, _HIGHEST = 0.05, 0.995
_LEAST_SHARE: Final = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class TwoCoins:
    """A fitted model of the votes of K arms on two labels.

    Attributes:
        accuracy: p, shape (K, 2).
        share: the share of items for which each label is right, shape (2,); or the probability of each
            label on each row, shape (P, 2).
        temper: the exponent of each arm's likelihood, shape (K,).
    """

    accuracy: Array
    share: Array
    temper: Array

    @property
    def skill(self) -> Array:
        """The mean log-odds of each arm's vote, shape (K,)."""
        odds = np.log(self.accuracy) - np.log1p(-self.accuracy)
        return np.asarray(odds @ self.share, dtype=np.float64)

    def explained(self, rows: Rows, accuracy: Array) -> Explained:
        """What votes say if arms have other accuracies on each row, shape (n, K, 2), or on all, (K, 2)."""
        mass, evidence = replace(self, accuracy=accuracy).beliefs(rows)
        right = np.stack([(rows == label) * mass[:, label, None] for label in range(2)], axis=2)
        return Explained(mass, right, evidence)

    def beliefs_at(self, lattice: Lattice) -> tuple[Array, Array]:
        """:meth:`beliefs` of all nodes of a lattice."""
        return self.beliefs(lattice.rows)

    def among(self, positions: Sequence[int]) -> TwoCoins:
        """The model of the votes of some arms."""
        return replace(self, accuracy=self.accuracy[[*positions]], temper=self.temper[[*positions]])

    def refitted(self, rows: Rows) -> TwoCoins:
        """The same kind of model, fitted to other rounds, shape (n, K)."""
        return fit_two_coins(*distinct(rows), self.temper)

    def beliefs(self, rows: Rows) -> tuple[Array, Array]:
        """The probability of each label, shape (P, 2), and the log-probability of the votes, shape (P,)."""
        right, wrong = np.log(self.accuracy), np.log1p(-self.accuracy)
        first, second = (
            np.log(self.share[..., label])
            + (np.where(rows == label, right[..., label], wrong[..., label]) * (rows >= 0)) @ self.temper
            for label in range(2)
        )
        evidence = np.logaddexp(first, second)
        return np.exp(np.stack((first, second), axis=1) - evidence[:, None]), evidence


def fit_two_coins(rows: Rows, counts: Array, temper: Array) -> TwoCoins:
    """Fit the accuracies and the labels' shares by EM, from the majority's labels.

    Args:
        rows: vote rows, shape (P, K).
        counts: the weight of each row in rounds, shape (P,).
        temper: the exponent of each arm's likelihood, in (0, 1], shape (K,).
    """
    voted = (rows >= 0).astype(np.float64)
    named = [(rows == label).astype(np.float64) for label in range(2)]
    lead = named[1].sum(axis=1) - named[0].sum(axis=1)
    belief: Array = 0.5 + 0.3 * np.stack((-np.sign(lead), np.sign(lead)), axis=1)
    model = TwoCoins(np.full((rows.shape[1], 2), 0.8), np.full(2, 0.5), temper)
    for step in range(_STEPS):
        if step:
            belief, _ = model.beliefs(rows)
        weight = counts[:, None] * belief
        right = np.stack([named[label].T @ weight[:, label] for label in range(2)], axis=1)
        cast = voted.T @ weight
        mean = (right.sum(axis=1) + _PRIOR_ROUNDS * _PRIOR_ACCURACY) / (cast.sum(axis=1) + _PRIOR_ROUNDS)
        accuracy = np.clip((right + _PULL * mean[:, None]) / (cast + _PULL), _LOWEST, _HIGHEST)
        share = (weight.sum(axis=0) + _SHARE_ROUNDS) / (counts.sum() + 2.0 * _SHARE_ROUNDS)
        share = np.clip(share, _LEAST_SHARE, 1.0 - _LEAST_SHARE)
        model = TwoCoins(accuracy, share / share.sum(), temper)
    return model
