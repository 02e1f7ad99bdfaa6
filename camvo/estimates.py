"""What the state says about every arm on one question, before anyone is asked (Algorithm 1, lines 4–10)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from camvo import linucb
from camvo.aggregation import LABEL_VOTE, Aggregation
from camvo.beta_mixture import EstimatorName, clip
from camvo.copula import Copula, stream
from camvo.errors import InvalidParameterError
from camvo.state import Arm, State
from camvo.typing import Array


@dataclass(frozen=True, slots=True)
class Observation:
    """What a policy sees of one question of one task.

    ``state`` is what has been learnt about the question, ``context`` the embedding e_t of shape (d,),
    ``labels`` the label set in the order of the label config (or the items to be ranked; none for a number),
    ``aggregation`` how votes on it are counted.
    """

    state: State
    context: Array
    labels: tuple[str, ...]
    aggregation: Aggregation = LABEL_VOTE


@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """The arms' estimates on one question; every array has shape (K,), in the order of the plan's arms.

    Attributes:
        labels: the label set.
        context: the embedding e_t, shape (d,).
        rewards: N, the number of rewards behind each arm.
        agreement: μ = Σr / N, and 1 before the first reward (line 20).
        q: the linear estimate, unclipped (line 6).
        lower: L, the regularised lower bound on the probability of being right (line 9).
        weights: ω = μ·q, q clipped to [0, 1] (line 10).
        correctness: the probability of being right that a vote's posterior is computed with.
        aggregation: how votes on the question are counted.
        copula: how the arms' correctness goes together, where the policy asked for it.
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


def estimate(
    seen: Observation,
    arms: Sequence[str],
    *,
    alpha: float,
    lambda_r: float,
    estimator: EstimatorName = "moments",
    correlated: bool = False,
) -> Estimates:
    """Score every arm on one question.

    Args:
        seen: the question's state, context and label set.
        arms: the names of the K models.
        alpha: α, the width of the confidence bound in standard deviations of the linear model.
        lambda_r: λ_R, the strength of the log-Laplace regularisation.
        estimator: how the parameters of the Beta distributions are estimated.
        correlated: whether the arms' copula is wanted (Appendix G); it freezes their correlation as of now.

    Raises:
        InvalidParameterError: the context does not fit the state or is not finite, or there is nothing
            to decide (no label, fewer than two items to rank).
    """
    state = seen.state
    if seen.context.shape != (state.dimension,):
        raise InvalidParameterError(
            f"context of shape {seen.context.shape}, the state has d = {state.dimension}"
        )
    if not np.all(np.isfinite(seen.context)):
        raise InvalidParameterError("the context holds NaN or infinity; learnt, it would spoil the state")
    smoothing = lambda_r * math.log(state.rounds + 2)
    newcomer = 0.5 + 0.5 * seen.aggregation.guess(seen.labels)
    rows = [
        _arm(
            state.get(arm),
            seen.context,
            alpha=alpha,
            smoothing=smoothing,
            newcomer=newcomer,
            estimator=estimator,
        )
        for arm in arms
    ]
    rewards, mu, q, lower, correctness = np.array(rows, dtype=np.float64).reshape(-1, 5).T
    weights = mu * np.clip(q, 0.0, 1.0)
    copula = None
    if correlated:
        copula = Copula(state.pairs.correlation(arms), stream(state.rounds, seen.context))
    return Estimates(
        labels=seen.labels,
        context=seen.context,
        rewards=rewards,
        agreement=mu,
        q=q,
        lower=lower,
        weights=weights,
        correctness=correctness,
        aggregation=seen.aggregation,
        copula=copula,
    )


def _arm(
    arm: Arm | None,
    context: Array,
    *,
    alpha: float,
    smoothing: float,
    newcomer: float,
    estimator: EstimatorName,
) -> tuple[float, float, float, float, float]:
    """N, μ, q, L and correctness of one arm; t + 1 of the paper is the number of completed rounds + 2."""
    if arm is None or arm.mu is None:
        n, mu, q, likely, believed = 0, 1.0, 0.0, 0.5, 0.5
    else:
        n, mu = arm.rewards, arm.mu
        q, width = linucb.score(arm.inverse, arm.b, context)
        likely = arm.mixture.posterior(clip(q - alpha * width), mu, estimator)
        believed = arm.mixture.posterior(clip(q), mu, estimator)
    mass = n + smoothing
    lower = (likely * n + smoothing / 2.0) / mass if mass > 0.0 else likely
    return n, mu, q, lower, (believed * n + 2.0 * newcomer) / (n + 2.0)
