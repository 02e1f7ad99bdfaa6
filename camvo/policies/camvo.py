"""CaMVo, the paper's policy (Algorithm 1), and CCaMVo, which models correlated errors (Appendix G)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from camvo.errors import InvalidParameterError
from camvo.numerics.small import TIE
from camvo.policies.ensemble import Choice, Ensemble, Situation
from camvo.policies.parameters import CaMVoParameters
from camvo.policies.policy import Estimates, Plan
from camvo.subsets.confidence import Copula
from camvo.subsets.oracle import (
    BUDGET,
    MOST_SETS,
    ConfidenceName,
    Demand,
    Subset,
    cheapest_subset,
    cheapest_subsets,
)
from camvo.typing import NO_CONFIDENCES, Array, Confidences, Votes


@dataclass(frozen=True, kw_only=True)
class CaMVo(Ensemble, CaMVoParameters):
    """Algorithm 1: ask the cheapest set of models whose weighted vote is confident enough.

    Attributes:
        delta: δ in [0, 1], the confidence required on every question.
        k_min: the fewest models to ask, at least 1.
        n0: n₀ ≥ 1. An arm with fewer rewards is asked in addition to the subset and does not count towards
            δ_A. While no arm has n₀ rewards, the vote is unweighted. The paper has n₀ = 1.
        confidence: how δ_A is computed: ``"beta"``, ``"exact"`` or ``"copula"`` (see
            :mod:`camvo.subsets.confidence`).
        budget: the largest number of sets that one search may examine. A search that runs out takes the best
            set so far, or all arms if that set is not confident enough.

    >>> import camvo
    >>> prices = {"small": 0.1, "large": 5.0}
    >>> policy = camvo.CaMVo(delta=0.8, k_min=1)
    >>> question = camvo.Question(("neg", "pos"), prices=prices, dimension=2, policy=policy)
    >>> for _ in range(20):
    ...     task = question.task([1.0, 0.0])
    ...     while models := task.ask():
    ...         task.add(dict.fromkeys(models, "pos"))
    ...     task.learn()
    >>> question.task([1.0, 0.0]).ask()
    ('small',)
    """

    budget: int = BUDGET

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.budget < 1:
            raise InvalidParameterError(f"budget must be at least 1, got {self.budget}")

    def ask(self, plan: Plan, votes: Votes, *, confidences: Confidences = NO_CONFIDENCES) -> tuple[str, ...]:
        """The plan's subset at first, then the arms that replace those that gave no vote."""
        first = super().ask(plan, votes)
        if first or all(len(answers) == len(plan.estimates) for answers in votes.values()):
            return first
        return self.complement(plan, votes)

    def complement(self, plan: Plan, votes: Votes) -> tuple[str, ...]:
        """The cheapest arms that make the votes so far confident enough, whatever the plan's subset.

        There is none if at least k_min arms have voted and their confidence reaches δ. All remaining arms are
        asked if no set of them reaches δ.
        """
        failed = [k for k, arm in enumerate(plan.arms) if arm in votes and not votes[arm]]
        choice = self._cheapest(
            plan.costs,
            self._demands_after(plan, votes),
            plan.estimates,
            least=self.k_min,
            held=_voted(plan, votes),
            excluded=failed,
        )
        return tuple(plan.arms[position] for position in choice.arms if plan.arms[position] not in votes)

    def confidence_in(self, plan: Plan, votes: Votes) -> float:
        """δ_A of the votes so far on their weakest question; 0 without a vote."""
        voted = _voted(plan, votes)
        others = [position for position in range(len(plan.arms)) if position not in voted]
        demands = self._demands_after(plan, votes)
        subset = cheapest_subset(
            plan.costs,
            demands,
            0.0,
            confidence=self.confidence,
            copulas=_copulas(plan.estimates),
            held=voted,
            excluded=others,
        )
        return 0.0 if subset is None else subset.confidence

    def _demands_after(self, plan: Plan, votes: Votes) -> list[Demand]:
        """Each question's (L, ω). An arm that was asked and did not answer the question has weight 0."""
        demands = []
        for question, estimates in plan.estimates.items():
            lower, weights = self.demand(estimates)
            silent = [arm in votes and question not in votes[arm] for arm in plan.arms]
            demands.append((lower, np.where(silent, 0.0, weights)))
        return demands

    def choose(self, situation: Situation) -> Choice:
        """Choose the Oracle's subset and the arms below n₀ (line 11)."""
        count, prices, estimates = len(situation.costs), situation.prices_with_waits, situation.estimates
        held = self.newcomers([*estimates.values()])
        demands = [self.demand(columns) for columns in estimates.values()]
        least = count if situation.conditions.everyone else self.k_min
        if self.searches_table(count):
            one_task = [(lower[None], weights[None]) for lower, weights in demands]
            [subset] = cheapest_subsets(prices, one_task, self.delta, least, held=held)
            return self.choice(subset, count)
        return self._cheapest(prices, demands, estimates, least=least, held=held)

    def newcomers(self, questions: Sequence[Estimates]) -> list[int]:
        """Positions of the arms with fewer than n₀ rewards on at least one question."""
        fewest = np.min([columns.rewards for columns in questions], axis=0)
        return [position for position, rewards in enumerate(fewest.tolist()) if rewards < self.n0]

    def searches_table(self, arms: int) -> bool:
        """Whether the Oracle searches a table of all sets, which serves several tasks at once."""
        return self.confidence == "beta" and 0.5 < self.delta < 1.0 and 2**arms <= min(self.budget, MOST_SETS)

    def demand(self, estimates: Estimates) -> Demand:
        """(L, ω) of one question for the Oracle: an arm below n₀ has weight 0."""
        return estimates.lower, self.counted(estimates.weights, estimates.rewards)

    def counted(self, weights: Array, rewards: Array) -> Array:
        """ω for the Oracle, in the shape of ``weights``: an arm below n₀ has weight 0."""
        return weights * (rewards >= self.n0)

    def choice(self, subset: Subset | None, arms: int, excluded: Sequence[int] = ()) -> Choice:
        """The Oracle's set, or all arms except ``excluded`` if no set is known to be confident enough."""
        if subset is None or (not subset.complete and subset.confidence < self.delta - TIE):
            everyone = [position for position in range(arms) if position not in excluded]
            return Choice(everyone, complete=subset is None)
        return Choice(subset.arms, subset.confidence, subset.complete)

    def _cheapest(
        self,
        costs: Array,
        demands: list[Demand],
        estimates: Mapping[str, Estimates],
        *,
        least: int,
        held: list[int],
        excluded: Sequence[int] = (),
    ) -> Choice:
        subset = cheapest_subset(
            costs,
            demands,
            self.delta,
            least,
            confidence=self.confidence,
            copulas=_copulas(estimates),
            held=held,
            excluded=excluded,
            budget=self.budget,
        )
        return self.choice(subset, len(costs), excluded)

    @property
    def correlated(self) -> bool:
        """Whether δ_A needs the correlation of the arms' errors."""
        return self.confidence == "copula"

    def _weights(self, estimates: Estimates) -> Array:
        if max(estimates.rewards.tolist()) < self.n0:
            return np.ones_like(estimates.weights)
        return estimates.weights


@dataclass(frozen=True, kw_only=True)
class CCaMVo(CaMVo):
    """CaMVo with δ_A computed for correlated arms (Appendix G).

    >>> import camvo
    >>> prices = {"small": 0.1, "large": 5.0}
    >>> policy = camvo.CCaMVo(delta=0.8)
    >>> question = camvo.Question(("neg", "pos"), prices=prices, dimension=2, policy=policy)
    >>> question.task([1.0, 0.0]).ask()  # no arm has a history yet
    ('large', 'small')
    """

    confidence: ConfidenceName = field(default="copula", init=False)


def _voted(plan: Plan, votes: Votes) -> list[int]:
    """Positions of the arms that gave a vote on at least one question."""
    return [position for position, arm in enumerate(plan.arms) if votes.get(arm)]


def _copulas(estimates: Mapping[str, Estimates]) -> list[Copula]:
    """The questions' copulas, if the policy estimates them."""
    return [columns.copula for columns in estimates.values() if columns.copula is not None]
