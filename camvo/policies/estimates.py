"""What the state says about every arm on one question, before anyone is asked (Algorithm 1, lines 4–10)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from camvo.errors import InvalidParameterError
from camvo.policies.background_fits import Study
from camvo.state.beta_mixture import EstimatorName, posterior
from camvo.state.state import State
from camvo.subsets.copula import Copula, copula_seed
from camvo.typing import Array
from camvo.votes.aggregation import Aggregation
from camvo.votes.labels import LABEL_VOTE


@dataclass(frozen=True, slots=True)
class Observation:
    """What a policy sees of one question of one task.

    ``state`` is what has been learnt about the question, ``context`` the embedding e_t of shape (d,),
    ``labels`` the label set in the order of the label config (or the items to be ranked; none for a number),
    ``aggregation`` how votes on it are counted, ``study`` what the policy's ``material`` was found to say;
    without one, that is worked out at once.
    """

    state: State
    context: Array
    labels: tuple[str, ...]
    aggregation: Aggregation = LABEL_VOTE
    study: Study | None = None


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
    seen: Sequence[Observation],
    arms: Sequence[str],
    *,
    alpha: float,
    lambda_r: float,
    estimator: EstimatorName = "moments",
    correlated: bool = False,
) -> list[Estimates]:
    """Score every arm on one question of one or several tasks that are planned on the same state.

    Args:
        seen: the question's context and label set in each task, with one state.
        arms: the names of the K models.
        alpha: α, the width of the confidence bound in standard deviations of the linear model.
        lambda_r: λ_R, the strength of the log-Laplace regularisation.
        estimator: how the parameters of the Beta distributions are estimated.
        correlated: whether the arms' copula is wanted (Appendix G); it freezes their correlation as of now.

    Raises:
        InvalidParameterError: the tasks have different states, a context does not fit the state or is not
            finite, or there is nothing to decide (no label, fewer than two items to rank).
    """
    state = seen[0].state
    if any(other.state is not state for other in seen):
        raise InvalidParameterError("tasks that are planned together share one state for each question")
    n, mu, prior, *evidence = np.array([*zip(*state.standings(arms, estimator), strict=True)])
    q, width = state.score(arms, [one.context for one in seen])
    likely, believed = posterior(np.array((q - alpha * width, q)), prior, evidence)
    smoothing = lambda_r * math.log(state.rounds + 2)
    lower = likely
    if smoothing > 0.0:
        lower = (likely * n + smoothing / 2.0) / (n + smoothing)
    newcomer = np.array([[0.5 + 0.5 * one.aggregation.guess(one.labels)] for one in seen])
    correctness = (believed * n + 2.0 * newcomer) / (n + 2.0)
    weights = mu * np.minimum(np.maximum(q, 0.0), 1.0)
    rho = state.pairs.correlation(arms) if correlated else None
    return [
        Estimates(
            labels=one.labels,
            context=one.context,
            rewards=n,
            agreement=mu,
            q=q[task],
            lower=lower[task],
            weights=weights[task],
            correctness=correctness[task],
            aggregation=one.aggregation,
            copula=None if rho is None else Copula(rho, copula_seed(state.rounds, one.context)),
        )
        for task, one in enumerate(seen)
    ]
