"""A conditional logit (McFadden 1974) over candidate labels, whose prior precisions are learnt as well.

Each round is a choice among its own candidates. Coefficients belong to the features of a candidate, not to
the labels themselves, so a model's weight is learnt from all labels together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize

from camvo.typing import Array

_HYPERPRIOR: Final = 4.0
"""The initial variance of a group counts as much as this many of its coefficients."""
_MAX_UPDATES: Final = 12
_SETTLED: Final = 0.1
"""The updates stop when every precision changes by less than this on the log scale."""
_FEW: Final = 24
"""With at most so many features Newton's steps are quicker than L-BFGS, which needs no matrix of them."""
_MAX_STEPS: Final = 100
_GRADIENT: Final = 1e-6
"""A search stops when no element of the gradient is larger."""
_DECREASE: Final = 1e-4
"""A step must reach this part of the decrease that the gradient promises (Armijo 1966)."""
_SHORTEST: Final = 1e-10
"""A step that must be shorter than this part of Newton's shows that rounding allows no better value."""


@dataclass(frozen=True, slots=True, eq=False)
class ChoiceSets:
    """The choices of n rounds, with R candidates in all and F features.

    Attributes:
        design: the features of each candidate, sparse, shape (R, F). The candidates of a round are adjacent.
        starts: the first candidate of each round, shape (n,), ascending from 0. A round has at least one.
        chosen: whether each candidate is the right one, shape (R,); exactly one is in each round.
        round_of: the round of each candidate, shape (R,).
    """

    design: Any
    starts: NDArray[np.int64]
    chosen: NDArray[np.bool_]
    round_of: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        sizes = np.diff(self.starts, append=len(self.chosen))
        object.__setattr__(self, "round_of", np.repeat(np.arange(len(self.starts)), sizes))

    def select(self, which: NDArray[np.bool_]) -> ChoiceSets:
        """Keep the rounds for which ``which``, shape (n,), is true, in their order."""
        candidates = which[self.round_of]
        sizes = np.diff(self.starts, append=len(self.chosen))[which]
        return ChoiceSets(self.design[candidates], np.cumsum(sizes) - sizes, self.chosen[candidates])

    def first_features(self, count: int) -> ChoiceSets:
        """The same rounds with the first ``count`` features only."""
        return ChoiceSets(self.design[:, :count], self.starts, self.chosen)

    def log_probabilities(self, coefficients: Array) -> Array:
        """The log-probability of each candidate in its round, shape (R,); coefficients have shape (F,)."""
        z = np.asarray(self.design @ coefficients, dtype=np.float64)
        rounds = self.round_of
        z -= np.maximum.reduceat(z, self.starts)[rounds]
        return np.asarray(z - np.log(np.add.reduceat(np.exp(z), self.starts))[rounds], dtype=np.float64)

    def log_likelihoods(self, coefficients: Array) -> Array:
        """The log-probability of the chosen candidate of each round, shape (n,)."""
        return self.log_probabilities(coefficients)[self.chosen]


@dataclass(frozen=True, slots=True, eq=False)
class NormalPrior:
    """Independent normal priors of the coefficients: means and precisions, each of shape (F,)."""

    mean: Array
    precision: Array


def fit_conditional_logit(choices: ChoiceSets, prior: NormalPrior, start: Array | None = None) -> Array:
    """Fit the coefficients by maximum a posteriori; the problem is convex.

    Args:
        choices: the rounds.
        prior: the normal prior of the coefficients.
        start: where the search starts, shape (F,); the prior's mean by default.

    Returns:
        The coefficients, shape (F,).
    """
    begin = prior.mean if start is None else start
    return (_newton if len(begin) <= _FEW else _lbfgs)(choices, prior, begin)


def _newton(choices: ChoiceSets, prior: NormalPrior, start: Array) -> Array:
    """Search by Newton's steps, each halved until the loss falls."""
    design, round_of, starts = choices.design.toarray(), choices.round_of, choices.starts

    def losses(coefficients: Array) -> tuple[float, Array]:
        """The loss, and the log-probability of each candidate."""
        z = design @ coefficients
        z -= np.maximum.reduceat(z, starts)[round_of]
        log_p = z - np.log(np.add.reduceat(np.exp(z), starts))[round_of]
        penalty = 0.5 * (prior.precision * (coefficients - prior.mean) ** 2).sum()
        return float(penalty - log_p[choices.chosen].sum()), log_p

    coefficients = start
    loss, log_p = losses(coefficients)
    for _ in range(_MAX_STEPS):
        p = np.exp(log_p)
        gradient = (p - choices.chosen) @ design + prior.precision * (coefficients - prior.mean)
        if np.abs(gradient).max() <= _GRADIENT:
            break
        weighted = p[:, None] * design
        means = np.add.reduceat(weighted, starts)
        step = np.linalg.solve(design.T @ weighted - means.T @ means + np.diag(prior.precision), gradient)
        size, least = 1.0, _DECREASE * float(gradient @ step)
        while (found := losses(coefficients - size * step))[0] > loss - size * least and size > _SHORTEST:
            size /= 2.0
        if size <= _SHORTEST:
            break
        coefficients, (loss, log_p) = coefficients - size * step, found
    return coefficients


def _lbfgs(choices: ChoiceSets, prior: NormalPrior, start: Array) -> Array:
    """Search by L-BFGS, which is quicker with many features."""
    total = np.asarray(choices.design[choices.chosen].sum(axis=0), dtype=np.float64).ravel()
    transposed = choices.design.T.tocsr()

    def objective(coefficients: Array) -> tuple[float, Array]:
        log_p = choices.log_probabilities(coefficients)
        deviation = coefficients - prior.mean
        loss = -log_p[choices.chosen].sum() + 0.5 * (prior.precision * deviation**2).sum()
        return float(loss), transposed @ np.exp(log_p) - total + prior.precision * deviation

    optimum = minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 500, "ftol": 1e-12, "gtol": _GRADIENT},
    )
    return np.asarray(optimum.x, dtype=np.float64)


def fit_with_group_precisions(
    choices: ChoiceSets, prior: NormalPrior, groups: Sequence[NDArray[np.int64]]
) -> tuple[Array, NormalPrior]:
    """Fit a conditional logit and the prior precision of each group of coefficients.

    The precisions are learnt by MacKay's evidence updates (1992). A group's variance is the mean square of
    its coefficients plus their posterior variance (Laplace), shrunk towards the initial variance. Few rounds
    therefore leave it almost unchanged.

    Args:
        choices: the rounds.
        prior: the prior of all coefficients, with the initial precisions of the groups.
        groups: for each group, the positions of its coefficients.

    Returns:
        The coefficients, shape (F,), and the prior with the learnt precisions.
    """
    coefficients, precision = prior.mean, prior.precision.copy()
    for _ in range(_MAX_UPDATES):
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
