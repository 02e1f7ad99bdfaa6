"""The base class of all policies: estimate the arms, ask a fixed set, count votes and learn from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from camvo.errors import InvalidParameterError
from camvo.policies.background_fits import FitData
from camvo.policies.estimates import Estimates, Observation, estimate
from camvo.policies.plan import Plan
from camvo.policies.teaching import TaughtRound
from camvo.state.beta_mixture import ESTIMATORS, EstimatorName
from camvo.state.contribution import Contribution
from camvo.typing import NO_CONFIDENCES, Array, Confidences, Votes
from camvo.votes.aggregation import Aggregation, Ballot
from camvo.votes.decision import Decision


@dataclass(frozen=True, slots=True)
class Choice:
    """The arms to ask first.

    Attributes:
        arms: their positions, ascending.
        confidence: as in :class:`.Plan`.
        complete: as in :class:`.Plan`.
    """

    arms: Sequence[int]
    confidence: float | None = None
    complete: bool = True


@dataclass(frozen=True, kw_only=True)
class Ensemble:
    """The base class of all policies: estimate the arms, ask a fixed set, count votes and learn from them.

    :meth:`plan` takes three steps: :meth:`estimate` every question, :meth:`choose` the arms to ask first, and
    :meth:`assemble` the plan.

    Attributes:
        alpha: α ≥ 0, the width of the confidence bound in standard deviations of the linear model.
        lambda_r: λ_R ≥ 0, the strength of the log-Laplace regularisation.
        estimator: how the Beta parameters of Est are estimated: ``"moments"`` (as in the paper's
            experiments) or ``"mle"`` (maximum likelihood). Appendix B has both.
    """

    alpha: float = 0.25
    lambda_r: float = 1.0
    estimator: EstimatorName = "moments"

    def __post_init__(self) -> None:
        for name, value in (("α", self.alpha), ("λ_R", self.lambda_r)):
            if not (np.isfinite(value) and value >= 0.0):
                raise InvalidParameterError(f"{name} must be finite and not negative, got {value}")
        if self.estimator not in ESTIMATORS:
            raise InvalidParameterError(f'estimator must be "moments" or "mle", got {self.estimator!r}')

    @property
    def studies(self) -> bool:
        """Whether a student (:mod:`camvo.student.student`) votes too, unless it is turned off."""
        return False

    def linear(self, aggregation: Aggregation) -> bool:
        """Whether the policy reads the linear models of the context for a question that is so aggregated."""
        return True

    def reads_context(self, aggregation: Aggregation) -> bool:
        """Whether the policy reads the context itself for a question that is so aggregated.

        A fit may read it besides (:attr:`camvo.policies.background_fits.Fit.reads_context`).
        """
        return True

    def fit_data(self, observation: Observation, costs: Mapping[str, float]) -> FitData | None:
        """``None``: the policy needs no background fit."""
        return None

    def plan(self, observations: Mapping[str, Observation], costs: Mapping[str, float]) -> Plan:
        """Estimate every arm on every question and choose the subset to ask first.

        Args:
            observations: question → its observation, at least one.
            costs: arm → the expected price of asking it, $, at least one arm.

        Raises:
            InvalidParameterError: there is no arm or no question, a context does not fit its state, or the
                policy cannot plan for these arms and prices.
        """
        if not costs or not observations:
            raise InvalidParameterError("a plan needs at least one model and one question")
        arms, _ = arms_and_prices(costs)
        estimates = {
            question: self.estimate(observation, arms) for question, observation in observations.items()
        }
        choice = self.choose(arms, costs, estimates)
        return self.assemble(observations, costs, estimates, choice)

    def estimate(self, observation: Observation, arms: Sequence[str]) -> Estimates:
        """Estimate every arm on one question."""
        return estimate(
            observation,
            arms,
            alpha=self.alpha,
            lambda_r=self.lambda_r,
            estimator=self.estimator,
            correlated=self.correlated,
            linear=self.linear(observation.aggregation),
        )

    def choose(
        self, arms: tuple[str, ...], costs: Mapping[str, float], estimates: Mapping[str, Estimates]
    ) -> Choice:
        """Choose the arms to ask first: all of them."""
        return Choice(range(len(arms)))

    def assemble(
        self,
        observations: Mapping[str, Observation],
        costs: Mapping[str, float],
        estimates: Mapping[str, Estimates],
        choice: Choice,
    ) -> Plan:
        """Make the plan that asks the chosen arms first."""
        arms, prices = arms_and_prices(costs)
        propensity = np.zeros(len(arms))
        for position in choice.arms:
            propensity[position] = 1.0
        return Plan(
            arms=arms,
            costs=prices,
            estimates=estimates,
            weights={question: self._weights(columns) for question, columns in estimates.items()},
            subset=tuple([arms[position] for position in choice.arms]),
            confidence=choice.confidence,
            complete=choice.complete,
            propensity=propensity,
        )

    def ask(self, plan: Plan, votes: Votes, *, confidences: Confidences = NO_CONFIDENCES) -> tuple[str, ...]:
        """The arms of the plan's subset that have not been asked yet."""
        return tuple([arm for arm in plan.subset if arm not in votes])

    def decide(
        self, plan: Plan, votes: Votes, *, confidences: Confidences = NO_CONFIDENCES
    ) -> dict[str, Decision]:
        """Aggregate the votes on each question that has any (line 13)."""
        decisions = {}
        for question, estimates in plan.estimates.items():
            cast = {arm: answers[question] for arm, answers in votes.items() if question in answers}
            if not cast:
                continue
            columns = (plan.weights[question], estimates.lower, estimates.correctness)
            ballot = Ballot(cast, *[dict(zip(plan.arms, column.tolist(), strict=True)) for column in columns])
            label, posterior = estimates.aggregation.aggregate(ballot, estimates.labels)
            decisions[question] = Decision(label, posterior[label], posterior)
        return decisions

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
        """What the state of ``question`` learns if the label is ``label`` (:class:`.TaughtRound`)."""
        return TaughtRound.planned(plan, question, votes, confidences).contribution(label, human=human)

    @property
    def correlated(self) -> bool:
        """Whether the policy needs the arms' copula."""
        return False

    def _weights(self, estimates: Estimates) -> Array:
        """The arms' weights in the vote, shape (K,)."""
        return estimates.weights


def arms_and_prices(costs: Mapping[str, float]) -> tuple[tuple[str, ...], Array]:
    """The arms in alphabetical order and their prices, shape (K,), read-only: plans share the array."""
    return _arms_and_prices(tuple(costs.items()))


@lru_cache(maxsize=64)
def _arms_and_prices(costs: tuple[tuple[str, float], ...]) -> tuple[tuple[str, ...], Array]:
    ordered = sorted(costs)
    prices = np.array([price for _, price in ordered], dtype=np.float64)
    prices.flags.writeable = False
    return tuple([arm for arm, _ in ordered]), prices
