"""A conditional logit that takes up its corrections only as far as held-out rounds prove them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from camvo.numerics.conditional_logit import ChoiceSets, NormalPrior, fit_conditional_logit
from camvo.typing import Array

_FOLDS: Final = 5


def fit_proven_logit(
    choices: ChoiceSets,
    prior: NormalPrior,
    corrections: NDArray[np.bool_],
    tightnesses: Sequence[float],
    errors: float = 1.0,
) -> Array:
    """Fit a conditional logit whose prior is only as loose for the corrections as held-out rounds prove.

    At first the corrections are 0. A looser prior takes over where it predicts rounds that it has not seen
    better than the prior before it, by more than so many standard errors of the difference. Each fifth of the
    rounds is held out once; below ten rounds nothing is proven.

    Args:
        choices: the rounds.
        prior: the prior of all F coefficients.
        corrections: which coefficients are corrections, shape (F,); their prior mean is 0.
        tightnesses: what the corrections' precisions are multiplied by, the tightest first.
        errors: how many standard errors prove that a looser prior is better.

    Returns:
        The coefficients, shape (F,).
    """
    proven = math.inf
    if len(choices.starts) >= 2 * _FOLDS:
        told = _held_out(choices, prior, corrections, proven)
        for tightness in tightnesses:
            tells = _held_out(choices, prior, corrections, tightness)
            gain = tells - told
            if gain.sum() > errors * math.sqrt(len(gain)) * gain.std(ddof=1):
                proven, told = tightness, tells
    return _fit(choices, prior, corrections, proven)


def _held_out(
    choices: ChoiceSets, prior: NormalPrior, corrections: NDArray[np.bool_], tightness: float
) -> Array:
    """The log-probability of each round's chosen candidate by a fit to the other folds, shape (n,)."""
    fold = np.arange(len(choices.starts)) % _FOLDS
    told = np.zeros(len(fold))
    for held in range(_FOLDS):
        coefficients = _fit(choices.select(fold != held), prior, corrections, tightness)
        told[fold == held] = choices.select(fold == held).log_likelihoods(coefficients)
    return told


def _fit(choices: ChoiceSets, prior: NormalPrior, corrections: NDArray[np.bool_], tightness: float) -> Array:
    """The coefficients, with corrections so much tighter than the prior; at ∞ they are 0."""
    if math.isfinite(tightness):
        tighter = np.where(corrections, tightness, 1.0) * prior.precision
        return fit_conditional_logit(choices, NormalPrior(prior.mean, tighter))
    kept = ~corrections
    coefficients = np.zeros(len(kept))
    coefficients[kept] = fit_conditional_logit(
        replace(choices, design=choices.design[:, kept]), NormalPrior(prior.mean[kept], prior.precision[kept])
    )
    return coefficients
