"""Policies: whom to ask, how to decide, what to learn. CaMVo (Algorithm 1) is the first of them.

A policy holds parameters and no state. For each task its four methods are called in turn::

    plan         = policy.plan(observations, costs)         before anyone is asked; frozen
    arms         = policy.ask(plan, votes)                  again and again, until nobody is left to ask
    decisions    = policy.decide(plan, votes)               the label and its score, for each question
    contribution = policy.contribution(plan, q, votes, y)   what the state of question q learns from it
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from camvo.aggregation import LABEL_VOTE, Ballot
from camvo.beta_mixture import ESTIMATORS, EstimatorName
from camvo.confidence import TIE
from camvo.copula import Copula
from camvo.errors import InvalidParameterError
from camvo.estimates import Estimates, Observation, estimate
from camvo.oracle import BUDGET, ConfidenceName, Demand, cheapest
from camvo.state import Change, Contribution
from camvo.typing import Array, Votes


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What was known and decided before the first model was asked.

    Attributes:
        arms: the K models that could be asked, in alphabetical order, so that their order in a
            configuration changes nothing.
        costs: the expected price of asking each of them, $, shape (K,).
        estimates: question → the arms' estimates.
        weights: question → the weights that the arms' votes will have, each of shape (K,).
        subset: the models to ask first, in the order of ``arms``.
        confidence: δ_A of the subset on its weakest question; ``None`` where no set reached δ (then all are
            asked) or the policy does not compute it.
        propensity: the probability with which each arm is asked first, shape (K,).
    """

    arms: tuple[str, ...]
    costs: Array
    estimates: Mapping[str, Estimates]
    weights: Mapping[str, Array]
    subset: tuple[str, ...]
    confidence: float | None
    propensity: Array

    def describe(self, question: str) -> dict[str, Any]:
        """The plan for one question as plain JSON: what a round keeps of it (the context is kept beside)."""
        estimates = self.estimates[question]
        columns = {
            "cost": self.costs,
            "propensity": self.propensity,
            "rewards": estimates.rewards,
            "agreement": estimates.agreement,
            "q": estimates.q,
            "lower": estimates.lower,
            "weight": self.weights[question],
            "correctness": estimates.correctness,
        }
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        arms = {arm: dict(zip(columns, row, strict=True)) for arm, row in zip(self.arms, rows, strict=True)}
        return {
            "labels": list(estimates.labels),
            "subset": list(self.subset),
            "confidence": self.confidence,
            "arms": arms,
        }


@dataclass(frozen=True, slots=True)
class Decision:
    """The label of one question; ``score`` is the probability that it is right given the votes that came.

    For a number or a ranking ``label`` is its text, ``score`` the reward it can expect, and ``posterior``
    holds nothing else.
    """

    label: str
    score: float
    posterior: Mapping[str, float]


class Policy(Protocol):
    """The interface of every policy; votes are arm → question → label (:data:`camvo.typing.Votes`)."""

    def plan(self, observations: Mapping[str, Observation], costs: Mapping[str, float]) -> Plan:
        """Decide whom to ask first, from each question's observation and each arm's price in $."""
        ...

    def ask(self, plan: Plan, votes: Votes) -> tuple[str, ...]:
        """The arms to ask now, given the votes so far; nobody means that the task is decided."""
        ...

    def decide(self, plan: Plan, votes: Votes) -> dict[str, Decision]:
        """The decision on each question that has a vote."""
        ...

    def contribution(
        self, plan: Plan, question: str, votes: Votes, label: str, *, human: bool = False
    ) -> Contribution:
        """What the state of ``question`` learns when its label is ``label``."""
        ...


def lesson(
    context: Array,
    q: Mapping[str, float],
    votes: Mapping[str, str],
    label: str,
    *,
    human: bool,
    reward: Callable[[str, str], float] = LABEL_VOTE.reward,
) -> Contribution:
    """The contribution of one round: r_i = 1{y_i = label} for every arm that voted (lines 16–21).

    Fewer than two votes teach nothing unless ``label`` comes from a human: an arm alone always agrees with
    itself. The round is counted in t all the same.

    Args:
        context: e_t, shape (d,).
        q: arm → its estimate when the round was planned.
        votes: arm → label, on this question.
        label: the voted label, or the human's.
        human: whether ``label`` is a human's.
        reward: r_i from a vote and ``label``: the :meth:`reward` of the question's aggregation.
    """
    if len(votes) < 2 and not human:
        return Contribution(context, ())
    changes = (Change(arm, float(q[arm]), None, reward(vote, label)) for arm, vote in sorted(votes.items()))
    return Contribution(context, tuple(changes))


@dataclass(frozen=True, kw_only=True)
class Ensemble:
    """What all policies share: estimating, asking a fixed set, counting votes and learning from them.

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

    def plan(self, observations: Mapping[str, Observation], costs: Mapping[str, float]) -> Plan:
        """Estimate every arm on every question and choose the subset to ask first.

        Raises:
            InvalidParameterError: no arm, no question, or a context that does not fit its state.
        """
        if not costs or not observations:
            raise InvalidParameterError("a plan needs at least one model and one question")
        arms = tuple(sorted(costs))
        prices = np.array([costs[arm] for arm in arms], dtype=np.float64)
        estimates = {
            question: estimate(
                seen,
                arms,
                alpha=self.alpha,
                lambda_r=self.lambda_r,
                estimator=self.estimator,
                correlated=self._correlated,
            )
            for question, seen in observations.items()
        }
        chosen, confidence = self._choose(arms, prices, estimates)
        return Plan(
            arms=arms,
            costs=prices,
            estimates=estimates,
            weights={question: self._weights(seen) for question, seen in estimates.items()},
            subset=tuple(arms[position] for position in chosen),
            confidence=confidence,
            propensity=np.isin(np.arange(len(arms)), chosen).astype(np.float64),
        )

    def ask(self, plan: Plan, votes: Votes) -> tuple[str, ...]:
        """The arms of the plan's subset that were not asked yet."""
        return tuple(arm for arm in plan.subset if arm not in votes)

    def decide(self, plan: Plan, votes: Votes) -> dict[str, Decision]:
        """The answer of the question's aggregation, on each question that has a vote (line 13)."""
        decisions = {}
        for question, estimates in plan.estimates.items():
            cast = {arm: answers[question] for arm, answers in votes.items() if question in answers}
            if not cast:
                continue
            columns = (plan.weights[question], estimates.lower, estimates.correctness)
            ballot = Ballot(cast, *(dict(zip(plan.arms, column, strict=True)) for column in columns))
            label, chances = estimates.aggregation.aggregate(ballot, estimates.labels)
            decisions[question] = Decision(label, chances[label], chances)
        return decisions

    def contribution(
        self, plan: Plan, question: str, votes: Votes, label: str, *, human: bool = False
    ) -> Contribution:
        """The :func:`lesson` of the round on ``question``."""
        estimates = plan.estimates[question]
        cast = {arm: answers[question] for arm, answers in votes.items() if question in answers}
        return lesson(
            estimates.context,
            dict(zip(plan.arms, estimates.q, strict=True)),
            cast,
            label,
            human=human,
            reward=estimates.aggregation.reward,
        )

    @property
    def _correlated(self) -> bool:
        """Whether the policy needs to know how the arms depend on each other."""
        return False

    def _choose(
        self, arms: tuple[str, ...], costs: Array, estimates: Mapping[str, Estimates]
    ) -> tuple[list[int], float | None]:
        """Positions of the arms to ask first, and δ_A of them where it is known."""
        return list(range(len(arms))), None

    def _weights(self, estimates: Estimates) -> Array:
        """The arms' weights in the vote, shape (K,)."""
        return estimates.weights


@dataclass(frozen=True, kw_only=True)
class CaMVo(Ensemble):
    """Algorithm 1: ask the cheapest set of models whose weighted vote is confident enough.

    Attributes:
        delta: δ in [0, 1], the confidence asked for on every question.
        k_min: the fewest models to ask.
        n0: an arm with fewer rewards than this is asked beside the subset and does not count towards δ_A;
            while no arm has as many, the vote is unweighted. 1 is the paper.
        confidence: how δ_A is computed, ``"beta"``, ``"exact"`` or ``"copula"`` (see
            :mod:`camvo.confidence`).
        budget: sets that one search may look at; a search that needs more takes the best that it found, or
            asks all arms.
    """

    delta: float = 0.97
    k_min: int = 3
    n0: int = 10
    confidence: ConfidenceName = "beta"
    budget: int = BUDGET

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.delta <= 1.0:
            raise InvalidParameterError(f"δ is a probability, got {self.delta}")
        if self.k_min < 1 or self.n0 < 1:
            raise InvalidParameterError(f"k_min and n₀ start at 1, got {self.k_min} and {self.n0}")
        if self.confidence not in ("beta", "exact", "copula"):
            raise InvalidParameterError(f'confidence is "beta", "exact" or "copula", got {self.confidence!r}')
        if self.budget < 1:
            raise InvalidParameterError(f"a search needs a budget of at least one set, got {self.budget}")

    def ask(self, plan: Plan, votes: Votes) -> tuple[str, ...]:
        """The subset first; then, where an arm gave no vote, whoever the Oracle puts in its place."""
        first = super().ask(plan, votes)
        complete = all(question in answers for answers in votes.values() for question in plan.estimates)
        return first if first or complete else self.complement(plan, votes)

    def complement(self, plan: Plan, votes: Votes) -> tuple[str, ...]:
        """The cheapest arms that make the votes at hand confident enough, whatever the plan's subset was.

        Nobody where the votes are enough (and at least k_min); all that are left where no set of them is.
        """
        failed = [k for k, arm in enumerate(plan.arms) if arm in votes and not votes[arm]]
        chosen, _ = self._cheapest(
            plan.costs,
            self._demands_after(plan, votes),
            plan.estimates,
            held=_voted(plan, votes),
            excluded=failed,
        )
        return tuple(plan.arms[position] for position in chosen if plan.arms[position] not in votes)

    def confidence_in(self, plan: Plan, votes: Votes) -> float:
        """δ_A of the votes at hand on their weakest question; 0 without a vote."""
        voted = _voted(plan, votes)
        others = [position for position in range(len(plan.arms)) if position not in voted]
        demands = self._demands_after(plan, votes)
        alone = cheapest(
            plan.costs,
            demands,
            0.0,
            confidence=self.confidence,
            copulas=_copulas(plan.estimates),
            held=voted,
            excluded=others,
        )
        return 0.0 if alone is None else alone.confidence

    def _demands_after(self, plan: Plan, votes: Votes) -> list[Demand]:
        """Each question's (L, ω), where an arm that was asked and left the question out has no weight."""
        demands = []
        for question, estimates in plan.estimates.items():
            lower, weights = self._demand(estimates)
            silent = [arm in votes and question not in votes[arm] for arm in plan.arms]
            demands.append((lower, np.where(silent, 0.0, weights)))
        return demands

    def _choose(
        self, arms: tuple[str, ...], costs: Array, estimates: Mapping[str, Estimates]
    ) -> tuple[list[int], float | None]:
        young: NDArray[np.bool_] = np.any([e.rewards < self.n0 for e in estimates.values()], axis=0)
        demands = [self._demand(e) for e in estimates.values()]
        return self._cheapest(costs, demands, estimates, held=list(np.flatnonzero(young)))

    def _cheapest(
        self,
        costs: Array,
        demands: list[Demand],
        estimates: Mapping[str, Estimates],
        held: list[int],
        excluded: Sequence[int] = (),
    ) -> tuple[list[int], float | None]:
        """The Oracle's set, or all arms that did not fail where no set is known to be confident enough."""
        subset = cheapest(
            costs,
            demands,
            self.delta,
            self.k_min,
            confidence=self.confidence,
            copulas=_copulas(estimates),
            held=held,
            excluded=excluded,
            budget=self.budget,
        )
        if subset is None or (not subset.complete and subset.confidence < self.delta - TIE):
            return [position for position in range(len(costs)) if position not in excluded], None
        return list(subset.arms), subset.confidence

    @property
    def _correlated(self) -> bool:
        return self.confidence == "copula"

    def _demand(self, estimates: Estimates) -> Demand:
        """(L, ω) of one question as the Oracle sees them: an arm below n₀ carries no weight."""
        return estimates.lower, np.where(estimates.rewards < self.n0, 0.0, estimates.weights)

    def _weights(self, estimates: Estimates) -> Array:
        if np.all(estimates.rewards < self.n0):
            return np.ones_like(estimates.weights)
        return estimates.weights


@dataclass(frozen=True, kw_only=True)
class CCaMVo(CaMVo):
    """CaMVo with δ_A from correlated arms (Appendix G); nothing else is changed."""

    confidence: ConfidenceName = "copula"


def _voted(plan: Plan, votes: Votes) -> list[int]:
    """Positions of the arms that gave a vote on any question."""
    return [position for position, arm in enumerate(plan.arms) if votes.get(arm)]


def _copulas(estimates: Mapping[str, Estimates]) -> list[Copula]:
    """The questions' copulas, where the policy asked for them."""
    return [seen.copula for seen in estimates.values() if seen.copula is not None]
