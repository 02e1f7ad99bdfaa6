"""Routing by context between the cheapest and the dearest model, as RouteLLM does (Ong et al. 2024)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from camvo.errors import InvalidParameterError
from camvo.policies.ensemble import Choice
from camvo.policies.estimates import Estimates, Observation
from camvo.policies.plan import Plan
from camvo.policies.rivals.one_model import OneModel
from camvo.policies.teaching import TaughtRound
from camvo.state.contribution import Contribution
from camvo.typing import NO_CONFIDENCES, Confidences, Votes


@dataclass(frozen=True, kw_only=True)
class Router(OneModel):
    """Ask the cheapest model, or the dearest where the text says that it gains enough.

    The first rounds ask both. The linear models of the state (LinUCB's ridge regressions) learn from the
    contexts how likely each is right. A human label says who was right; without one, the dearest model's vote
    counts as right. Where the estimate for the dearest exceeds that for the cheapest by more than the
    threshold, the dearest is asked, else the cheapest. If the one asked gives no vote, the other is asked.

    RouteLLM learns from preferences between the two models' answers by matrix factorisation or a language
    model. Here it is a ridge regression on the same kind of embedding, as a state has it.

    Attributes:
        threshold: the gain in the probability of being right above which the dearest model is asked, in
            [−1, 1].
        first: how many rounds ask both, at least 0.

    >>> import camvo
    >>> prices = {"small": 0.1, "medium": 1.0, "large": 5.0}
    >>> policy = camvo.Router(threshold=0.1, first=1)
    >>> question = camvo.Question(("neg", "pos"), prices=prices, dimension=2, policy=policy)
    >>> task = question.task([1.0, 0.0])
    >>> task.ask()
    ('large', 'small')
    >>> task.add({"large": "pos", "small": "neg"})
    >>> task.learn(human="pos")
    >>> question.task([1.0, 0.0]).ask(), question.task([0.0, 1.0]).ask()
    (('large',), ('small',))
    """

    threshold: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not -1.0 <= self.threshold <= 1.0:
            raise InvalidParameterError(f"threshold must be in [-1, 1], got {self.threshold}")

    def assemble(
        self,
        observations: Mapping[str, Observation],
        costs: Mapping[str, float],
        estimates: Mapping[str, Estimates],
        choice: Choice,
    ) -> Plan:
        """Make the plan that asks both models, or one of them."""
        plan = super().assemble(observations, costs, estimates, choice)
        cheapest, dearest = _pair(plan)
        rounds = min(observation.state.rounds for observation in observations.values())
        asked = {cheapest, dearest}
        if rounds >= self.first:
            gain = max(float(columns.q[dearest] - columns.q[cheapest]) for columns in estimates.values())
            asked = {dearest if gain > self.threshold else cheapest}
        positions = range(len(plan.arms))
        weights = np.array([1.0 if position == dearest else 0.5 for position in positions])
        return replace(
            plan,
            subset=tuple([plan.arms[position] for position in positions if position in asked]),
            propensity=np.array([float(position in asked) for position in positions]),
            weights=dict.fromkeys(estimates, weights),
        )

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
        """What the state learns: who was right by the human label, or else by the dearest model's vote."""
        _, dearest = _pair(plan)
        right = label if human else votes.get(plan.arms[dearest], {}).get(question, label)
        return TaughtRound.planned(plan, question, votes, confidences).contribution(right, human=human)

    def _candidates(self, plan: Plan) -> list[str]:
        """The cheapest model and the dearest."""
        return [plan.arms[position] for position in _pair(plan)]


def _pair(plan: Plan) -> tuple[int, int]:
    """The positions of the cheapest and the dearest arm; of equal prices, the first in the alphabet."""
    return int(plan.costs.argmin()), int(plan.costs.argmax())
