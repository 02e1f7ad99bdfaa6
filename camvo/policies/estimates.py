"""Estimate every arm on one question before any model is asked (Algorithm 1, lines 4–10)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from camvo.policies.background_fits import Fit
from camvo.state.beta_mixture import EstimatorName, posterior
from camvo.state.state import State, check_contexts
from camvo.subsets.copula import Copula, copula_seed
from camvo.typing import Array
from camvo.votes.aggregation import Aggregation
from camvo.votes.labels import LABEL_VOTE

UNREAD = 0.5
"""q of every arm where a policy does not read the linear models. Without spread, Est is μ."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The input of a policy for one question of one task.

    Attributes:
        state: what was learnt about the question.
        context: the embedding e_t, shape (d,), finite; zeros if it is unknown, for policies that do not read
            it (:meth:`camvo.policies.ensemble.Ensemble.reads_context`).
        labels: the label set in the order of the label config, or the items to rank; empty for a number.
        aggregation: how votes on the question become one answer.
        fit: the latest background fit of the policy's :meth:`~camvo.Policy.fit_data`. Without one, the policy
            computes the fit when it plans.
        task: a name of the task, from which exploration is drawn; empty to draw from the context.

    >>> import camvo
    >>> import numpy as np
    >>> observation = camvo.Observation(camvo.State(dimension=2), np.array([1.0, 0.0]), ("neg", "pos"))
    >>> camvo.Baseline().plan({"mood": observation}, {"small": 0.1, "large": 5.0}).subset
    ('large', 'small')
    """

    state: State
    context: Array
    labels: tuple[str, ...]
    aggregation: Aggregation = LABEL_VOTE
    fit: Fit | None = None
    task: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """The arms' estimates on one question. Every array has shape (K,), in the order of the plan's arms.

    Attributes:
        labels: the label set.
        context: the embedding e_t, shape (d,).
        rewards: N, the number of rewards of each arm.
        agreement: μ = Σr / N, and 1 before the first reward (line 20).
        q: the linear estimate, unclipped (line 6).
        lower: L, the regularised lower bound on the probability of being right (line 9).
        weights: ω = μ·q, q clipped to [0, 1] (line 10).
        correctness: the probability of being right from which the posterior of a vote is computed.
        aggregation: how votes on the question become one answer.
        copula: the dependence of the arms' correctness; ``None`` if the policy does not need it.
        histories: arm → the number of the history behind its columns; 0 for arms that are absent.
        restarts: how many restarts the state had.
    """

    labels: tuple[str, ...]
    context: Array
    rewards: Array
    agreement: Array
    q: Array
    lower: Array
    weights: Array
    correctness: Array
    aggregation: Aggregation = LABEL_VOTE
    copula: Copula | None = None
    histories: Mapping[str, int] = field(default_factory=dict)
    restarts: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Scoring:
    """Algorithm 1, lines 8–10, for one state and several arms: turn scores into estimates.

    Attributes:
        state: the question's state.
        arms: the names of the K models.
        alpha: α, the width of the confidence bound in standard deviations of the linear model.
        lambda_r: λ_R, the strength of the log-Laplace regularisation.
        estimator: how the parameters of the Beta distributions are estimated.
    """

    state: State
    arms: Sequence[str]
    alpha: float
    lambda_r: float
    estimator: EstimatorName

    def columns(self, q: Array, width: Array, guess: Array | float) -> tuple[Array, ...]:
        """N and μ of shape (K,), then L, ω and the correctness in the shape of ``q``.

        Args:
            q: the linear estimates, shape (…, K).
            width: their widths before α, shape (…, K).
            guess: the expected reward of a random vote, a number or of shape (…, 1).
        """
        standings = self.state.standings(self.arms, self.estimator)
        n, mu, prior, *evidence = np.array([*zip(*standings, strict=True)])
        likely, believed = posterior(np.array((q - self.alpha * width, q)), prior, evidence)
        smoothing = self.lambda_r * math.log(self.state.rounds + 2)
        lower = likely
        if smoothing > 0.0:
            lower = (likely * n + smoothing / 2.0) / (n + smoothing)
        correctness = (believed * n + 2.0 * (0.5 + 0.5 * guess)) / (n + 2.0)
        return n, mu, lower, mu * np.minimum(np.maximum(q, 0.0), 1.0), correctness


def estimate(
    observation: Observation,
    arms: Sequence[str],
    *,
    alpha: float,
    lambda_r: float,
    estimator: EstimatorName = "moments",
    correlated: bool = False,
    linear: bool = True,
) -> Estimates:
    """Score every arm on one question of one task.

    Args:
        observation: the question's observation.
        arms: the names of the K models.
        alpha: α, as in :class:`Scoring`.
        lambda_r: λ_R, as in :class:`Scoring`.
        estimator: as in :class:`Scoring`.
        correlated: whether to compute the arms' copula (Appendix G) from their present correlation.
        linear: whether to read the state's linear models. Otherwise every q is ½ with width 0, and what is
            believed of an arm is its μ.

    Raises:
        InvalidParameterError: the context does not fit the state or is not finite, or there is nothing to
            decide (no label, fewer than two items to rank).
    """
    state = observation.state
    if linear:
        q, width = state.score(arms, observation.context)
    else:
        check_contexts([observation.context], state.dimension)
        q, width = np.full(len(arms), UNREAD), np.zeros(len(arms))
    guess = observation.aggregation.guess(observation.labels)
    n, mu, lower, weights, correctness = Scoring(state, arms, alpha, lambda_r, estimator).columns(
        q, width, guess
    )
    copula = copula_of(state, arms, observation.context) if correlated else None
    return Estimates(
        labels=observation.labels,
        context=observation.context,
        rewards=n,
        agreement=mu,
        q=q,
        lower=lower,
        weights=weights,
        correctness=correctness,
        aggregation=observation.aggregation,
        copula=copula,
        histories=state.histories.current_of(arms),
        restarts=state.drift.restarts,
    )


def copula_of(state: State, arms: Sequence[str], context: Array) -> Copula:
    """The Gaussian copula of the arms' correctness, from their present correlation (Appendix G)."""
    return Copula(state.pairs.correlation(arms), copula_seed(state.rounds, context))
