"""The single best model by human labels: what people do who label a sample and pick the winner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from camvo.policies.ensemble import Choice
from camvo.policies.estimates import Estimates, Observation
from camvo.policies.plan import Plan
from camvo.policies.rivals.one_model import OneModel
from camvo.state.contribution import Change, Contribution
from camvo.typing import NO_CONFIDENCES, Array, Confidences, Votes


@dataclass(frozen=True, kw_only=True)
class BestSingle(OneModel):
    """Ask every model at first, and then only the one that human labels show to be right most often.

    It learns from human labels alone. While there are none, it goes on asking every model. A model that gives
    no vote is replaced by the next best.

    Attributes:
        first: how many rounds ask every model, at least 0.

    >>> import camvo
    >>> prices = {"small": 0.1, "large": 5.0}
    >>> question = camvo.Question(
    ...     ("neg", "pos"), prices=prices, dimension=2, policy=camvo.BestSingle(first=1)
    ... )
    >>> task = question.task([1.0, 0.0])
    >>> task.ask()
    ('large', 'small')
    >>> task.add({"large": "pos", "small": "neg"})
    >>> task.learn(human="neg")
    >>> question.task([0.0, 1.0]).ask()
    ('small',)
    """

    def assemble(
        self,
        observations: Mapping[str, Observation],
        costs: Mapping[str, float],
        estimates: Mapping[str, Estimates],
        choice: Choice,
    ) -> Plan:
        """Make the plan that asks every model, or the best of them."""
        plan = super().assemble(observations, costs, estimates, choice)
        rounds = min(observation.state.rounds for observation in observations.values())
        labelled = any(columns.rewards.any() for columns in estimates.values())
        if rounds < self.first or not labelled:
            return plan
        (best, *_) = _ranked(plan)
        propensity = np.array([float(arm == best) for arm in plan.arms])
        return replace(plan, subset=(best,), propensity=propensity)

    def contribution(
        self,
        plan: Plan,
        question: str,
        votes: Votes,
        label: str,
        *,
        human: bool = False,
        confidences: Confidences = NO_CONFIDENCES,
    ) -> Contribution:
        """What the state learns: who was right by a human label, and nothing without one.

        A model that was asked and gave no vote was not right.
        """
        estimates = plan.estimates[question]
        if not human:
            return Contribution(estimates.context, ())
        changes = [
            Change(arm, q, None, self._reward(estimates, votes[arm].get(question), label))
            for arm, q in zip(plan.arms, estimates.q.tolist(), strict=True)
            if arm in votes
        ]
        return Contribution(estimates.context, tuple(changes))

    def _candidates(self, plan: Plan) -> list[str]:
        """All models, the best first."""
        return _ranked(plan)

    @staticmethod
    def _reward(estimates: Estimates, vote: str | None, label: str) -> float:
        return 0.0 if vote is None else estimates.aggregation.reward(vote, label)


def _ranked(plan: Plan) -> list[str]:
    """The models by accuracy over all questions, with a right and a wrong vote added; then by price."""
    accuracy = np.mean([_accuracy(columns) for columns in plan.estimates.values()], axis=0)
    keys = sorted(zip((-accuracy).tolist(), plan.costs.tolist(), plan.arms, strict=True))
    return [arm for _, _, arm in keys]


def _accuracy(estimates: Estimates) -> Array:
    n = estimates.rewards
    accuracy: Array = (np.where(n > 0, estimates.agreement, 0.0) * n + 1.0) / (n + 2.0)
    return accuracy
