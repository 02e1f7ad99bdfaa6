"""What the state says about every arm on one question, before anyone is asked (Algorithm 1, lines 4–10)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from camvo import linucb
from camvo.beta_mixture import clip
from camvo.copula import Copula, stream
from camvo.errors import InvalidParameterError
from camvo.state import Arm, State
from camvo.typing import Array


@dataclass(frozen=True, slots=True)
class Observation:
    """What a policy sees of one question of one task.

    ``state`` is what has been learnt about the question, ``context`` the embedding e_t of shape (d,),
    ``labels`` the label set in the order of the label config.
    """

    state: State
    context: Array
    labels: tuple[str, ...]


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
    copula: Copula | None = None


def estimate(
    seen: Observation, arms: Sequence[str], *, alpha: float, lambda_r: float, correlated: bool = False
) -> Estimates:
    """Score every arm on one question.

    Args:
        seen: the question's state, context and label set.
        arms: the names of the K models.
        alpha: α, the width of the confidence bound in standard deviations of the linear model.
        lambda_r: λ_R, the strength of the log-Laplace regularisation.
        correlated: whether the arms' copula is wanted (Appendix G); it freezes their correlation as of now.

    Raises:
        InvalidParameterError: the context does not fit the state or is not finite, or there is no label.
    """
    state = seen.state
    if seen.context.shape != (state.dimension,):
        raise InvalidParameterError(
            f"context of shape {seen.context.shape}, the state has d = {state.dimension}"
        )
    if not seen.labels:
        raise InvalidParameterError("a question needs a label")
    if not np.all(np.isfinite(seen.context)):
        raise InvalidParameterError("the context holds NaN or infinity; learnt, it would spoil the state")
    smoothing = lambda_r * math.log(state.rounds + 2)
    chance = 0.5 + 0.5 / len(seen.labels)
    rows = [_arm(state.get(arm), seen.context, alpha, smoothing, chance) for arm in arms]
    rewards, mu, q, lower, correctness = np.array(rows, dtype=np.float64).reshape(-1, 5).T
    weights = mu * np.clip(q, 0.0, 1.0)
    copula = None
    if correlated:
        copula = Copula(state.pairs.correlation(arms), stream(state.rounds, seen.context))
    return Estimates(seen.labels, seen.context, rewards, mu, q, lower, weights, correctness, copula)


def _arm(
    arm: Arm | None, context: Array, alpha: float, smoothing: float, chance: float
) -> tuple[float, float, float, float, float]:
    """N, μ, q, L and correctness of one arm; t + 1 of the paper is the number of completed rounds + 2."""
    if arm is None or arm.mu is None:
        n, mu, q, likely, believed = 0, 1.0, 0.0, 0.5, 0.5
    else:
        n, mu = arm.rewards, arm.mu
        q, width = linucb.score(arm.inverse, arm.b, context)
        likely = arm.mixture.posterior(clip(q - alpha * width), mu)
        believed = arm.mixture.posterior(clip(q), mu)
    mass = n + smoothing
    lower = (likely * n + smoothing / 2.0) / mass if mass > 0.0 else likely
    return n, mu, q, lower, (believed * n + 2.0 * chance) / (n + 2.0)
