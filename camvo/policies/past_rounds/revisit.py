"""Iterative relabelling: models are asked again where past votes no longer suffice (the paper's conclusion).

Early rounds are decided before the policy knows the models. Later the same votes may turn out to be worth
less. If they are no longer confident enough, asking the models that were not asked yet costs less than a new
round.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final

from camvo.joint.plans.further_votes import NOTHING, GoingOn
from camvo.numerics.tolerances import TIE
from camvo.policies.camvo import CaMVo
from camvo.policies.ensemble import Choice
from camvo.policies.estimates import Estimates
from camvo.policies.past_rounds.past_round import QUESTION, PastRound
from camvo.policies.plan import Plan
from camvo.state.state import State
from camvo.typing import NO_CONFIDENCES, Confidences, Votes

_DEARER: Final = 10.0
"""So many times dearer than its worth a gain may be before it is not asked for.

The worth comes from prices and states of some time before, and examples alone make a prompt several times as
long. So only what has become pointless is left out.
"""

_FREE: Final = 1e-6
"""The least share of the full price that models count with, so that those without a price have a value."""


@dataclass(frozen=True, kw_only=True)
class Revisit(CaMVo):
    """CaMVo or CCaMVo on decided rounds: a round whose δ_A is below δ under today's state is in doubt.

    The arms to ask are the cheapest that make the votes confident enough (:meth:`.CaMVo.complement`). Their
    *gain* is by how much they raise δ_A, at most to δ, summed over the task's questions. δ_A bounds the
    probability that the label is right from below, so the gain counts in right labels.

    Attributes:
        worth_usd: what one more right label is worth, in the unit of the prices; infinite for no limit.
    """

    worth_usd: float = math.inf

    @classmethod
    def of(cls, policy: CaMVo) -> Revisit:
        """The policy on decided rounds, with the same parameters."""
        return cls(**{each.name: getattr(policy, each.name) for each in fields(CaMVo)})

    def worth_of(self, full: float) -> float:
        """Infinite: δ says how far to go, and money how many rounds."""
        return math.inf

    def going_on(self, worth_usd: float) -> Revisit:
        """The same policy, which passes over what has become far dearer than a right label is worth."""
        return replace(self, worth_usd=worth_usd)

    def choose(
        self, arms: tuple[str, ...], costs: Mapping[str, float], estimates: Mapping[str, Estimates]
    ) -> Choice:
        """No arm: the votes that are there are where it begins."""
        return Choice(())

    def ask(self, plan: Plan, votes: Votes, *, confidences: Confidences = NO_CONFIDENCES) -> tuple[str, ...]:
        """The arms that the votes lack; none if these reach δ, or if more votes do not raise δ_A."""
        arms, gain = self.lacking(plan, votes)
        return arms if gain * self.worth_usd * _DEARER >= _price(plan, arms) else ()

    def lacking(self, plan: Plan, votes: Votes) -> tuple[tuple[str, ...], float]:
        """The arms that the votes lack to be confident enough, and their gain in right labels.

        Returns:
            No arm and 0 if the votes reach δ on every question, or if no further vote raises δ_A.
        """
        reached = self._reached(plan, votes)
        if min(reached) >= self.delta - TIE:
            return (), 0.0
        arms = self.complement(plan, votes)
        voted = {**votes, **{arm: dict.fromkeys(plan.estimates, "") for arm in arms}}
        gain = sum(self._reached(plan, voted)) - sum(reached)
        return (arms, gain) if gain > TIE else ((), 0.0)

    def further_votes(self, state: State, past: PastRound) -> GoingOn:
        """The best use of further votes on a decided round.

        Args:
            state: the question's state of today. It includes what the round itself has taught.
            past: the round.

        Raises:
            InvalidParameterError: the context does not fit the state, or ``costs`` is empty.
        """
        plan = self.plan({QUESTION: past.observation(state)}, past.costs)
        arms, gain = self.lacking(plan, past.cast)
        if not arms:
            return NOTHING
        full = _price(plan, plan.arms)
        share = _price(plan, arms) / full if full > 0.0 else 1.0
        return GoingOn(gain / max(share, _FREE), arms)

    def _reached(self, plan: Plan, votes: Votes) -> list[float]:
        """δ_A of the votes on each question, at most δ."""
        singly = (replace(plan, estimates={name: each}) for name, each in plan.estimates.items())
        return [min(self.confidence_in(question, votes), self.delta) for question in singly]


def _price(plan: Plan, arms: Sequence[str]) -> float:
    """What asking some of the plan's arms costs."""
    return float(sum(plan.costs[plan.arms.index(arm)] for arm in arms))
