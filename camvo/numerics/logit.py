"""A conditional logit (McFadden 1974) over candidate labels.

Each round is a choice among its own candidates. Coefficients belong to the features of a candidate, not to
the labels themselves, so a model's weight is learnt from all labels together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from camvo.typing import Array

_FEW: Final = 24
"""Up to this many features, Newton's steps are faster than L-BFGS, which needs no matrix of features."""
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


def _fit_conditional_logit(choices: ChoiceSets, prior: NormalPrior) -> Array:
    """Fit the coefficients by maximum a posteriori; the problem is convex."""
    return (_newton if len(prior.mean) <= _FEW else _lbfgs)(choices, prior, prior.mean)


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


_FOLDS: Final = 5


def fit_proven_logit(
    choices: ChoiceSets,
    prior: NormalPrior,
    corrections: NDArray[np.bool_],
    tightnesses: Sequence[float],
    errors: float = 1.0,
) -> Array:
    """Fit a conditional logit whose prior is only as loose for the corrections as held-out rounds prove.

    ``corrections`` says which of the F coefficients are corrections, and ``tightnesses`` what their
    precisions are multiplied by, the tightest first. At first the corrections are 0. A looser prior replaces
    the one before it if it predicts held-out rounds better, by more than ``errors`` standard errors of the
    difference. Each fifth of the rounds is held out once; fewer than ten rounds prove nothing.
    """
    proven = math.inf
    if len(choices.starts) >= 2 * _FOLDS:
        folds = _folds(choices)
        best = _held_out(folds, prior, corrections, proven)
        for tightness in tightnesses:
            looser = _held_out(folds, prior, corrections, tightness)
            gain = looser - best
            if gain.sum() > errors * math.sqrt(len(gain)) * gain.std(ddof=1):
                proven, best = tightness, looser
    return _fit(choices, prior, corrections, proven)


def fit_averaged_logit(
    choices: ChoiceSets, prior: NormalPrior, corrections: NDArray[np.bool_], tightnesses: Sequence[float]
) -> Array:
    """Fit a conditional logit as the mean of fits without corrections, and with each strength of their prior.

    Fits weigh as much as they make held-out rounds probable. Fewer than ten rounds prove nothing. The
    arguments are those of :func:`fit_proven_logit`.
    """
    if len(choices.starts) < 2 * _FOLDS:
        return _fit(choices, prior, corrections, math.inf)
    ways, folds = (math.inf, *tightnesses), _folds(choices)
    likelihoods = np.array([_held_out(folds, prior, corrections, way).sum() for way in ways])
    fits = [_fit(choices, prior, corrections, way) for way in ways]
    return np.asarray(
        np.average(fits, axis=0, weights=np.exp(likelihoods - likelihoods.max())), dtype=np.float64
    )


def _folds(choices: ChoiceSets) -> list[tuple[ChoiceSets, ChoiceSets]]:
    """The rounds without those of each fold, and those of the fold."""
    fold = np.arange(len(choices.starts)) % _FOLDS
    return [(choices.select(fold != held), choices.select(fold == held)) for held in range(_FOLDS)]


def _held_out(
    folds: Sequence[tuple[ChoiceSets, ChoiceSets]],
    prior: NormalPrior,
    corrections: NDArray[np.bool_],
    tightness: float,
) -> Array:
    """The log-probability of each round's chosen candidate by a fit to the other folds, shape (n,)."""
    likelihoods = np.zeros(sum(len(held.starts) for _, held in folds))
    for number, (others, held) in enumerate(folds):
        likelihoods[number::_FOLDS] = held.log_likelihoods(_fit(others, prior, corrections, tightness))
    return likelihoods


def _fit(choices: ChoiceSets, prior: NormalPrior, corrections: NDArray[np.bool_], tightness: float) -> Array:
    """The coefficients, with the precisions of corrections multiplied by ``tightness``; 0 at ∞."""
    if math.isfinite(tightness):
        tighter = np.where(corrections, tightness, 1.0) * prior.precision
        return _fit_conditional_logit(choices, NormalPrior(prior.mean, tighter))
    kept = ~corrections
    coefficients = np.zeros(len(kept))
    coefficients[kept] = _fit_conditional_logit(
        replace(choices, design=choices.design[:, kept]), NormalPrior(prior.mean[kept], prior.precision[kept])
    )
    return coefficients
