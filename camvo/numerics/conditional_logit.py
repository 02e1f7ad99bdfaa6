"""A conditional logit (McFadden 1974) over candidate labels, whose prior learns how strong it has to be.

Each round is a choice among its own candidates, and coefficients belong to what speaks for a candidate, not
to the labels themselves. So a model's weight is learnt from all labels together, 2 or 22 of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize

from camvo.typing import Array

_HYPERPRIOR: Final = 4.0
"""How many coefficients' worth of evidence the initial variance of a group counts for."""
_ROUNDS: Final = 12
_SETTLED: Final = 0.1
"""Precisions that change by less than this on the log scale have settled."""


@dataclass(frozen=True, slots=True, eq=False)
class ChoiceSets:
    """n rounds with R candidates in all.

    Attributes:
        design: what speaks for each candidate, sparse, shape (R, F); a round's candidates are adjacent.
        starts: the first candidate of each round, shape (n,), ascending from 0; a round has at least one.
        chosen: whether a candidate is the right one, shape (R,); exactly one in each round.
    """

    design: Any
    starts: NDArray[np.int64]
    chosen: NDArray[np.bool_]

    @property
    def round_of(self) -> NDArray[np.int64]:
        """The round of each candidate, shape (R,)."""
        return np.repeat(np.arange(len(self.starts)), np.diff(self.starts, append=len(self.chosen)))

    def select(self, which: NDArray[np.bool_]) -> ChoiceSets:
        """The rounds for which ``which`` of shape (n,) is true, in their order."""
        kept = which[self.round_of]
        sizes = np.diff(self.starts, append=len(self.chosen))[which]
        return ChoiceSets(self.design[kept], np.cumsum(sizes) - sizes, self.chosen[kept])

    def first_coefficients(self, coefficients: int) -> ChoiceSets:
        """The same rounds with what the first so many coefficients belong to."""
        return ChoiceSets(self.design[:, :coefficients], self.starts, self.chosen)

    def log_probabilities(self, coefficients: Array) -> Array:
        """The log-probability of each candidate in its round, shape (R,)."""
        z = np.asarray(self.design @ coefficients, dtype=np.float64)
        rounds = self.round_of
        z -= np.maximum.reduceat(z, self.starts)[rounds]
        return np.asarray(z - np.log(np.add.reduceat(np.exp(z), self.starts))[rounds], dtype=np.float64)

    def log_likelihoods(self, coefficients: Array) -> Array:
        """The log-probability of what was chosen in each round, shape (n,)."""
        return self.log_probabilities(coefficients)[self.chosen]


@dataclass(frozen=True, slots=True, eq=False)
class NormalPrior:
    """Independent normal distributions of the coefficients, each array of shape (F,)."""

    mean: Array
    precision: Array


def fit_conditional_logit(choices: ChoiceSets, prior: NormalPrior, start: Array | None = None) -> Array:
    """The coefficients of the largest posterior density, shape (F,); the problem is convex."""
    total = np.asarray(choices.design[choices.chosen].sum(axis=0), dtype=np.float64).ravel()
    transposed = choices.design.T.tocsr()

    def objective(coefficients: Array) -> tuple[float, Array]:
        log_p = choices.log_probabilities(coefficients)
        away = coefficients - prior.mean
        loss = -log_p[choices.chosen].sum() + 0.5 * (prior.precision * away**2).sum()
        return float(loss), transposed @ np.exp(log_p) - total + prior.precision * away

    found = minimize(
        objective,
        prior.mean if start is None else start,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 500, "ftol": 1e-12, "gtol": 1e-6},
    )
    return np.asarray(found.x, dtype=np.float64)


def fit_with_group_precisions(
    choices: ChoiceSets, prior: NormalPrior, groups: Sequence[NDArray[np.int64]]
) -> tuple[Array, NormalPrior]:
    """As :func:`fit_conditional_logit`, with the precision of each group learnt by MacKay's evidence updates (1992).

    A group's variance is the mean square of its coefficients plus their posterior variance (Laplace), shrunk
    towards the initial one, so that few rounds leave it where it was.

    Args:
        choices: the rounds.
        prior: of all coefficients; the precisions of grouped ones are where the search starts.
        groups: positions of the coefficients that share a precision.

    Returns:
        The coefficients, shape (F,), and the prior with the precisions learnt.
    """
    coefficients, precision = prior.mean, prior.precision.copy()
    for _ in range(_ROUNDS):
        current = NormalPrior(prior.mean, precision)
        coefficients = fit_conditional_logit(choices, current, coefficients)
        variance = np.diag(np.linalg.inv(_curvature(choices, coefficients) + np.diag(precision)))
        learnt = precision.copy()
        for group in filter(len, groups):
            initial = 1.0 / prior.precision[group[0]]
            squares = (coefficients[group] - prior.mean[group]) ** 2 + variance[group]
            learnt[group] = (len(group) + _HYPERPRIOR) / (squares.sum() + _HYPERPRIOR * initial)
        if np.abs(np.log(learnt / precision)).max() < _SETTLED:
            break
        precision = learnt
    return coefficients, NormalPrior(prior.mean, precision)


def _curvature(choices: ChoiceSets, coefficients: Array) -> Array:
    """The negative Hessian of the log-likelihood, shape (F, F)."""
    p = np.exp(choices.log_probabilities(coefficients))
    shape = (len(choices.starts), len(p))
    means = sparse.csr_matrix((p, (choices.round_of, np.arange(len(p)))), shape=shape) @ choices.design
    second = choices.design.T @ sparse.diags(p) @ choices.design
    return np.asarray((second - means.T @ means).toarray(), dtype=np.float64)
