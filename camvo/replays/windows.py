"""Plan several tasks at once: faster than one by one, with the same plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from camvo.errors import InvalidParameterError
from camvo.policies.camvo import CaMVo
from camvo.policies.ensemble import Choice, Ensemble, arms_and_prices
from camvo.policies.estimates import UNREAD, Estimates, Observation, Scoring, copula_of
from camvo.policies.plan import Plan
from camvo.policies.policy import Policy
from camvo.replays.lookahead import LookaheadState
from camvo.subsets.oracle import Demand
from camvo.subsets.table_search import cheapest_subsets


def plan_window(
    policy: Policy, tasks: Sequence[Mapping[str, Observation]], costs: Mapping[str, float]
) -> list[Plan]:
    """Plan tasks that share questions, states and prices, as ``policy.plan`` plans each of them.

    Args:
        policy: any policy. A policy that is not an :class:`Ensemble` plans the tasks one by one.
        tasks: the observations of each task: question → observation. A :class:`LookaheadState` is scored
            once for all tasks.
        costs: arm → the expected price of asking it, in $.

    Returns:
        The plans, in the order of the tasks.

    Raises:
        InvalidParameterError: there is no arm, task or question, the tasks differ in their questions or
            states, or ``policy.plan`` refuses one.
    """
    if not costs or not tasks or not tasks[0]:
        raise InvalidParameterError("a window needs at least one model, one task and one question")
    if len(tasks) == 1 or not isinstance(policy, Ensemble):
        return [policy.plan(task, costs) for task in tasks]
    questions = tuple(tasks[0])
    if any(tuple(task) != questions for task in tasks):
        raise InvalidParameterError("tasks that are planned together must have the same questions")
    arms, _ = arms_and_prices(costs)
    by_question = [_estimate(policy, [task[question] for task in tasks], arms) for question in questions]
    estimates = [dict(zip(questions, row, strict=True)) for row in zip(*by_question, strict=True)]
    choices = _choose(policy, arms, costs, estimates)
    return [
        policy.assemble(task, costs, row, choice)
        for task, row, choice in zip(tasks, estimates, choices, strict=True)
    ]


def _estimate(policy: Ensemble, observations: Sequence[Observation], arms: Sequence[str]) -> list[Estimates]:
    """Estimate one question in every task, as :func:`camvo.policies.estimates.estimate` does for each."""
    state = observations[0].state
    if any(other.state is not state for other in observations):
        raise InvalidParameterError("tasks that are planned together must share one state for each question")
    if not isinstance(state, LookaheadState):
        return [policy.estimate(observation, arms) for observation in observations]
    shape = (len(observations), len(arms))
    if policy.linear(observations[0].aggregation):
        q, width = state.score_window(arms, [observation.context for observation in observations])
    else:
        q, width = np.full(shape, UNREAD), np.zeros(shape)
    guess = np.array([[observation.aggregation.guess(observation.labels)] for observation in observations])
    scoring = Scoring(state, arms, policy.alpha, policy.lambda_r, policy.estimator)
    n, mu, lower, weights, correctness = scoring.columns(q, width, guess)
    return [
        Estimates(
            labels=observation.labels,
            context=observation.context,
            rewards=n,
            agreement=mu,
            q=q[task],
            lower=lower[task],
            weights=weights[task],
            correctness=correctness[task],
            aggregation=observation.aggregation,
            copula=copula_of(state, arms, observation.context) if policy.correlated else None,
            histories=state.histories.current_of(arms),
            restarts=state.drift.restarts,
        )
        for task, observation in enumerate(observations)
    ]


def _choose(
    policy: Ensemble,
    arms: tuple[str, ...],
    costs: Mapping[str, float],
    estimates: Sequence[Mapping[str, Estimates]],
) -> list[Choice]:
    """Choose the arms to ask first in every task, as ``policy.choose`` does for each."""
    if not (isinstance(policy, CaMVo) and policy.searches_table(len(arms))):
        return [policy.choose(arms, costs, row) for row in estimates]
    demands: list[Demand] = []
    for question in estimates[0]:
        weights = np.array([row[question].weights for row in estimates])
        counted = policy.counted(weights, estimates[0][question].rewards)
        demands.append((np.array([row[question].lower for row in estimates]), counted))
    _, prices = arms_and_prices(costs)
    subsets = cheapest_subsets(
        prices,
        demands,
        policy.delta,
        policy.k_min,
        held=policy.newcomers([*estimates[0].values()]),
    )
    return [policy.choice(subset, len(arms)) for subset in subsets]
