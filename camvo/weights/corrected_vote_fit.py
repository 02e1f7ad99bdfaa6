"""Fitting the corrected vote to human labels: a conditional logit with normal priors.

The prior mean is the weighted vote. The prior variance of the corrections is learnt too
(:mod:`camvo.numerics.conditional_logit`). Corrections that the labels say little about therefore stay near 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from camvo.numerics.conditional_logit import (
    ChoiceSets,
    NormalPrior,
    fit_conditional_logit,
    fit_with_group_precisions,
)
from camvo.state.kept_rounds import KeptRound
from camvo.typing import Array
from camvo.weights.corrected_vote import CorrectedVote
from camvo.weights.corrected_vote_design import SCALE, SHARED, vote_choices

_FOLDS: Final = 5
_LEANING: Final = 1.0
"""Corrections that predict worse than the weighted vote by this many standard errors have a trust of ½,
because their prior already holds them back."""


_SCALE_MEAN: Final = 1.0 / 3.0
"""The prior mean of ``scale``. Weights are log-odds already, but errors are correlated, so the true log-odds
are about a third of the sum of weights."""

_PRECISIONS: Final = (180.0, 0.3, 1.0)
"""The prior precisions of ``scale``, ``none`` and ``alone``, which are not learnt. With a lower one for
``scale``, twenty labels on easy rounds could reduce it to nothing, and one arm would decide alone."""

_ARM_PRECISION: Final = 20.0
"""The prior precision of the arms' corrections before any label."""


@dataclass(frozen=True, slots=True, eq=False)
class _Fit:
    """Choices, the prior for them, and the fitted coefficients, shape (F,)."""

    choices: ChoiceSets
    prior: NormalPrior
    coefficients: Array

    def held_out_scores(self, held: NDArray[np.bool_]) -> Array:
        """The log-likelihood of each round in ``held``, shape (n,), after a fit to the other rounds."""
        others = self.choices.select(~held)
        return self.choices.select(held).log_likelihoods(
            fit_conditional_logit(others, self.prior, self.coefficients)
        )


def fit_corrected_vote(rows: Sequence[KeptRound], labels: Sequence[str]) -> CorrectedVote:
    """Fit the corrected vote to rounds with human labels.

    Rounds without a human label in ``labels``, or without a vote, are ignored. The trust compares the
    corrections with the weighted vote on held-out rounds (five folds). It is the normal probability of the
    gain in log-likelihood, given its standard error. It therefore rises smoothly, and falls if labels that
    supported the corrections are withdrawn.

    Args:
        rows: rounds of one question, whichever arms were asked, with weights that are log-odds.
        labels: the label set, in any order.

    Returns:
        The mean of the corrected and the weighted vote, weighted by the trust.
    """
    labelled = [
        row for row in rows if row.label in labels and any(vote.label in labels for vote in row.votes)
    ]
    if not labelled:
        return CorrectedVote(scale=_SCALE_MEAN)
    arms = sorted({vote.arm for row in labelled for vote in row.votes if vote.label in labels})
    full, plain = _fit_both(vote_choices(labelled, arms, sorted(labels)))
    trust = _trust(_held_out_gains(full, plain))
    mixed = trust * full.coefficients
    mixed[:SHARED] += (1.0 - trust) * plain.coefficients
    scale, none, alone, *of_arms = mixed.tolist()
    return CorrectedVote(scale, none, alone, dict(zip(arms, of_arms, strict=True)), trust)


def _fit_both(choices: ChoiceSets) -> tuple[_Fit, _Fit]:
    """Fit the vote with and without corrections."""
    features = choices.design.shape[1]
    mean = np.zeros(features)
    mean[SCALE] = _SCALE_MEAN
    precisions = np.array([*_PRECISIONS, *[_ARM_PRECISION] * (features - SHARED)])
    groups = [np.arange(SHARED, features)]
    coefficients, learnt = fit_with_group_precisions(choices, NormalPrior(mean, precisions), groups)
    plain_choices = choices.first_features(SHARED)
    plain_prior = NormalPrior(mean[:SHARED], precisions[:SHARED])
    plain = _Fit(plain_choices, plain_prior, fit_conditional_logit(plain_choices, plain_prior))
    return _Fit(choices, learnt, coefficients), plain


def _held_out_gains(full: _Fit, plain: _Fit) -> Array:
    """The gain of the corrections in each held-out round, in nats, shape (n,); empty for a single round."""
    fold_of = np.arange(len(full.choices.starts)) % _FOLDS
    gains: list[Array] = [np.zeros(0)]
    for fold in range(_FOLDS):
        held = fold_of == fold
        if not held.all() and held.any():
            gains.append(full.held_out_scores(held) - plain.held_out_scores(held))
    return np.concatenate(gains)


def _trust(gains: Array) -> float:
    """The trust in the corrections, in [0, 1], from the gain of each held-out round in nats, shape (n,)."""
    if len(gains) < _FOLDS:
        return 0.0
    total, error = float(gains.sum()), math.sqrt(len(gains)) * float(gains.std())
    return float(ndtr(total / error + _LEANING)) if error > 0.0 else float(total > 0.0)
