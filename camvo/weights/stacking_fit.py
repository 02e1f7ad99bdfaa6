"""Fitting the stacked vote to human labels: a conditional logit with normal priors around the weighted vote.

Each kind of correction has a prior variance of its own, which is learnt
(:mod:`camvo.numerics.conditional_logit`). Corrections that the labels say little about therefore stay near 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
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
from camvo.weights.grades import NO_GRADES, Grades
from camvo.weights.stacking import StackedVote
from camvo.weights.stacking_design import SCALE, SHARED, SURE, vote_choices

_FOLDS: Final = 5
_LEANING: Final = 1.0
"""Corrections that predict worse than the weighted vote by this many standard errors have a trust of ½,
because their prior already holds them back."""


@dataclass(frozen=True, slots=True)
class StackedVotePrior:
    """The prior of the stacked vote's terms before any human label. All corrections have mean 0.

    Attributes:
        scale: the mean of ``scale``; the means of ``none`` and ``alone`` are 0.
        sure: the mean of ``sure``. The log ratios are log-odds, but errors are correlated.
        shared: the precisions of ``scale``, ``none``, ``alone`` and ``sure``, which are not learnt.
        arms: the initial precision of the arms' corrections.
        labels: the initial precisions of the labels' corrections and of the pairs' corrections. ``None``
            leaves both out, so that a vote counts the same whatever label it is for.
    """

    scale: float
    sure: float
    shared: tuple[float, float, float, float]
    arms: float
    labels: tuple[float, float] | None = None


OPEN: Final = StackedVotePrior(1.0, 0.5, (0.3, 0.3, 1.0, 10.0), arms=10.0, labels=(10.0, 20.0))
"""For weights in any unit, with corrections for labels."""

ANCHORED: Final = StackedVotePrior(1.0 / 3.0, 1.0 / 3.0, (180.0, 0.3, 1.0, 10.0), arms=20.0)
"""For weights that are log-odds already. Errors are correlated, so the true log-odds are about a third of the
sum of weights. With a weaker prior, twenty labels on easy rounds could reduce the scale to nothing, and one
arm would decide alone."""


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


def fit_stacked_vote(
    rows: Sequence[KeptRound],
    labels: Sequence[str],
    prior: StackedVotePrior = OPEN,
    grades: Grades = NO_GRADES,
) -> StackedVote:
    """Fit the stacked vote to rounds with human labels.

    Rounds without a human label in ``labels``, or without a vote, are ignored. The trust compares the
    corrections with the weighted vote on held-out rounds (five folds). It is the normal probability of the
    gain in log-likelihood, given its standard error. It therefore rises smoothly, and falls if labels that
    supported the corrections are withdrawn.

    Args:
        rows: rounds of one question, whichever arms were asked.
        labels: the label set, in any order.
        prior: the prior of the terms.
        grades: what the arms' confidences are worth.

    Returns:
        The mean of the corrected and the weighted vote, weighted by the trust.
    """
    labelled = [
        row for row in rows if row.label in labels and any(vote.label in labels for vote in row.votes)
    ]
    if not labelled:
        return StackedVote(scale=prior.scale, sure=prior.sure if grades.arms else 0.0)
    arms = sorted({vote.arm for row in labelled for vote in row.votes if vote.label in labels})
    names = [] if prior.labels is None else sorted(labels)
    ends = np.cumsum([SHARED, len(arms), len(names), len(arms) * len(names)])
    choices = vote_choices(labelled, arms, sorted(labels), by_label=bool(names), grades=grades)
    full, plain = _fit_both(choices, prior, ends)
    trust = _trust(_held_out_gains(full, plain))
    mixed = trust * full.coefficients
    mixed[:SHARED] += (1.0 - trust) * plain.coefficients
    shared, of_arms, of_labels, of_pairs = np.split(mixed, ends[:-1])
    pairs = of_pairs.reshape(len(arms), len(names)).tolist()
    scale, none, alone, sure = shared.tolist()
    return StackedVote(
        scale,
        none,
        alone,
        arms=dict(zip(arms, of_arms.tolist(), strict=True)),
        labels=dict(zip(names, of_labels.tolist(), strict=True)),
        pairs={arm: dict(zip(names, row, strict=True)) for arm, row in zip(arms, pairs, strict=True)},
        trust=trust,
        sure=sure if grades.arms else 0.0,
    )


def _fit_both(choices: ChoiceSets, prior: StackedVotePrior, ends: NDArray[np.int64]) -> tuple[_Fit, _Fit]:
    """Fit the vote with and without corrections; ``ends`` are where each kind of coefficient ends."""
    mean = np.zeros(choices.design.shape[1])
    mean[SCALE], mean[SURE] = prior.scale, prior.sure
    precisions = [*prior.shared, prior.arms, *(prior.labels or (1.0, 1.0))]
    initial = np.repeat(precisions, [*[1] * SHARED, *np.diff(ends)])
    groups = [np.arange(start, end) for start, end in pairwise(ends.tolist())]
    coefficients, learnt = fit_with_group_precisions(choices, NormalPrior(mean, initial), groups)
    plain_choices = choices.first_features(SHARED)
    plain_prior = NormalPrior(mean[:SHARED], initial[:SHARED])
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
