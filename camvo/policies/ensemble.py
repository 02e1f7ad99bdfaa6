"""What all policies share: estimating, asking a fixed set, counting votes and learning from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from camvo.errors import InvalidParameterError
from camvo.policies.background_fits import FitData
from camvo.policies.estimates import Estimates, Observation, estimate
from camvo.policies.plan import Plan
from camvo.policies.teaching import TaughtRound
from camvo.state.beta_mixture import ESTIMATORS, EstimatorName
from camvo.state.contribution import Contribution
from camvo.typing import Array, Votes
from camvo.votes.aggregation import Ballot
from camvo.votes.decision import Decision


@dataclass(frozen=True, slots=True)
class Choice:
    """Whom to ask first: positions of arms, ascending, with the plan's ``confidence`` and ``complete``."""

    arms: Sequence[int]
    confidence: float | None = None
    complete: bool = True


@dataclass(frozen=True, kw_only=True)
class Ensemble:
    """What all policies share: estimating, asking a fixed set, counting votes and learning from them.

    :meth:`plan` is three steps: :meth:`estimate` every question, :meth:`choose` whom to ask first, and
    :meth:`assemble` the plan.

    Attributes:
        alpha: α ≥ 0, the width of the confidence bound.
        lambda_r: λ_R ≥ 0, the strength of the log-Laplace regularisation.
        estimator: how the Beta parameters of Est are estimated, ``"moments"`` (as in the paper's
            experiments) or ``"mle"`` (maximum likelihood; both in Appendix B).
    """

    alpha: float = 0.25
    lambda_r: float = 1.0
    estimator: EstimatorName = "moments"

    def __post_init__(self) -> None:
        for name, value in (("α", self.alpha), ("λ_R", self.lambda_r)):
            if not (np.isfinite(value) and value >= 0.0):
                raise InvalidParameterError(f"{name} must be finite and not negative, got {value}")
        if self.estimator not in ESTIMATORS:
            raise InvalidParameterError(f'estimator is "moments" or "mle", got {self.estimator!r}')

    def fit_data(self, observation: Observation, costs: Mapping[str, float]) -> FitData | None:
        """``None``: the policy needs no background fit."""
        return None

    def plan(self, observations: Mapping[str, Observation], costs: Mapping[str, float]) -> Plan:
        """Estimate every arm on every question and choose the subset to ask first.

        Args:
            observations: question → what is known of it.
            costs: arm → the expected price of asking it, $.

        Raises:
            InvalidParameterError: there is no arm or no question, or a context does not fit its state.
        """
        if not costs or not observations:
            raise InvalidParameterError("a plan needs at least one model and one question")
        arms = tuple(sorted(costs))
        estimates = {
            question: self.estimate(observation, arms) for question, observation in observations.items()
        }
        choice = self.choose(arms, costs, estimates)
        return self.assemble(observations, costs, estimates, choice)

    def estimate(self, observation: Observation, arms: Sequence[str]) -> Estimates:
        """What the state says about every arm on one question."""
        return estimate(
            observation,
            arms,
            alpha=self.alpha,
            lambda_r=self.lambda_r,
            estimator=self.estimator,
            correlated=self.correlated,
        )

    def choose(
        self, arms: tuple[str, ...], costs: Mapping[str, float], estimates: Mapping[str, Estimates]
    ) -> Choice:
        """Whom to ask first: everyone."""
        return Choice(range(len(arms)))

    def assemble(
        self,
        observations: Mapping[str, Observation],
        costs: Mapping[str, float],
        estimates: Mapping[str, Estimates],
        choice: Choice,
    ) -> Plan:
        """The plan that asks the chosen arms first."""
        arms = tuple(sorted(costs))
        propensity = np.zeros(len(arms))
        propensity[[*choice.arms]] = 1.0
        return Plan(
            arms=arms,
            costs=np.array([costs[arm] for arm in arms], dtype=np.float64),
            estimates=estimates,
            weights={question: self._weights(columns) for question, columns in estimates.items()},
            subset=tuple([arms[position] for position in choice.arms]),
            confidence=choice.confidence,
            complete=choice.complete,
            propensity=propensity,
        )

    def ask(self, plan: Plan, votes: Votes) -> tuple[str, ...]:
        """The arms of the plan's subset that were not asked yet."""
        return tuple([arm for arm in plan.subset if arm not in votes])

    def decide(self, plan: Plan, votes: Votes) -> dict[str, Decision]:
        """The answer of the question's aggregation, on each question that has a vote (line 13)."""
        decisions = {}
        for question, estimates in plan.estimates.items():
            cast = {arm: answers[question] for arm, answers in votes.items() if question in answers}
            if not cast:
                continue
            columns = (plan.weights[question], estimates.lower, estimates.correctness)
            ballot = Ballot(cast, *[dict(zip(plan.arms, column.tolist(), strict=True)) for column in columns])
            label, chances = estimates.aggregation.aggregate(ballot, estimates.labels)
            decisions[question] = Decision(label, chances[label], chances)
        return decisions

    def contribution(
        self, plan: Plan, question: str, votes: Votes, label: str, *, human: bool = False
    ) -> Contribution:
        """What the state of ``question`` learns if its label is ``label`` (:class:`.TaughtRound`)."""
        return TaughtRound.planned(plan, question, votes).contribution(label, human=human)

    @property
    def correlated(self) -> bool:
        """Whether the policy needs to know how the arms depend on each other."""
        return False

    def _weights(self, estimates: Estimates) -> Array:
        """The arms' weights in the vote, shape (K,)."""
        return estimates.weights
