"""Routing by context between the cheapest and the most expensive model, as in RouteLLM (Ong et al. 2024)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from camvo.errors import InvalidParameterError
from camvo.policies.ensemble import Baseline, Choice, Situation
from camvo.policies.parameters import OneModelParameters
from camvo.policies.policy import Estimates, Plan
from camvo.stages.stages import cheapest_first
from camvo.state.contribution import Change, Contribution
from camvo.typing import NO_CONFIDENCES, Array, Confidences, Votes


@dataclass(frozen=True, kw_only=True)
class _OneModel(Baseline, OneModelParameters):
    """Ask one model per task after first rounds that ask more. A model that gives no vote is replaced."""

    def ask(self, plan: Plan, votes: Votes, *, confidences: Confidences = NO_CONFIDENCES) -> tuple[str, ...]:
        """The models of the plan; then the next candidate, while a question has no vote."""
        if waiting := super().ask(plan, votes, confidences=confidences):
            return waiting
        if all(any(question in answers for answers in votes.values()) for question in plan.estimates):
            return ()
        return next(((arm,) for arm in self._candidates(plan) if arm not in votes), ())

    def _candidates(self, plan: Plan) -> Iterable[str]:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class BestSingle(_OneModel):
    """Ask every model at first, and then only the one that human labels show to be right most often.

    It learns from human labels alone. While there are none, it continues to ask every model. A model that
    gives no vote is replaced by the next best.

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

    def assemble(self, situation: Situation, choice: Choice) -> Plan:
        """Make the plan that asks every model, or the best of them."""
        plan = super().assemble(situation, choice)
        labelled = any(columns.rewards.any() for columns in situation.estimates.values())
        if situation.rounds < self.first or not labelled:
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


@dataclass(frozen=True, kw_only=True)
class Cascade(Baseline):
    """Ask one model after another, the cheapest first, until every question's score reaches the threshold.

    FrugalGPT (Chen, Zaharia and Zou, 2023) takes the answer of the last model asked and scores it by a
    network trained on labelled answers. This policy has no labels to train such a network on. The label
    is that of Algorithm 2's weighted vote of the models asked so far. Its score is the one-coin posterior
    (:func:`.label_posterior`), which treats errors as independent. All models asked get a reward, including
    those that were asked because the others disagreed.

    Attributes:
        threshold: the score in [0, 1] at which to stop.

    >>> import camvo
    >>> prices = {"small": 0.1, "large": 5.0}
    >>> policy = camvo.Cascade(threshold=0.8)
    >>> question = camvo.Question(("neg", "pos"), prices=prices, dimension=2, policy=policy)
    >>> task = question.task([1.0, 0.0])
    >>> task.ask()
    ('small',)
    >>> task.add({"small": "pos"})
    >>> task.ask()  # the score is 0.75 so far
    ('large',)
    """

    threshold: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.threshold <= 1.0:
            raise InvalidParameterError(f"threshold must be a probability in [0, 1], got {self.threshold}")

    def ask(self, plan: Plan, votes: Votes, *, confidences: Confidences = NO_CONFIDENCES) -> tuple[str, ...]:
        """The next model; empty if every question reaches the threshold, or no model is left."""
        decisions = self.decide(plan, votes)
        if len(decisions) == len(plan.estimates) and all(
            decision.score >= self.threshold for decision in decisions.values()
        ):
            return ()
        order, _ = cheapest_first(dict(zip(plan.arms, plan.costs.tolist(), strict=True)))
        return next(((arm,) for arm in order if arm not in votes), ())


@dataclass(frozen=True, kw_only=True)
class Router(_OneModel):
    """Ask the cheapest model, or the most expensive where the text predicts a large enough gain.

    The first rounds ask both. The linear models of the state (LinUCB's ridge regressions) learn from the
    contexts how likely each is right. A human label decides which was right; without one, the vote of the
    most expensive model counts as right. Where the estimate for the most expensive model exceeds that for the
    cheapest by more than the threshold, the most expensive is asked, else the cheapest. If the one asked
    gives no vote, the other is asked.

    RouteLLM learns from preferences between the two models' answers by matrix factorisation or a language
    model. This policy uses a ridge regression on the same kind of embedding instead, as the state keeps it.

    Attributes:
        threshold: the gain in the probability of being right above which the most expensive model is asked,
            in [−1, 1].
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

    def assemble(self, situation: Situation, choice: Choice) -> Plan:
        """Make the plan that asks both models, or one of them."""
        plan = super().assemble(situation, choice)
        cheapest, expensive = _pair(plan)
        asked = {cheapest, expensive}
        if situation.rounds >= self.first:
            gain = max(
                float(columns.q[expensive] - columns.q[cheapest]) for columns in plan.estimates.values()
            )
            asked = {expensive if gain > self.threshold else cheapest}
        positions = range(len(plan.arms))
        weights = np.array([1.0 if position == expensive else 0.5 for position in positions])
        return replace(
            plan,
            subset=tuple([plan.arms[position] for position in positions if position in asked]),
            propensity=np.array([float(position in asked) for position in positions]),
            weights=dict.fromkeys(plan.estimates, weights),
        )

    def _unchecked(self, plan: Plan, question: str, votes: Votes, label: str) -> str:
        """The vote of the most expensive model, if it has one."""
        _, expensive = _pair(plan)
        return votes.get(plan.arms[expensive], {}).get(question, label)

    def _candidates(self, plan: Plan) -> list[str]:
        """The cheapest model and the most expensive."""
        return [plan.arms[position] for position in _pair(plan)]


def _pair(plan: Plan) -> tuple[int, int]:
    """The positions of the cheapest and the most expensive arm; ties go to the first in the alphabet."""
    return int(plan.costs.argmin()), int(plan.costs.argmax())
