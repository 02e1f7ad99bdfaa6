"""A decided round as it was stored: how the current policy sees it, and what further votes on it are worth.

Further votes are worth the most right labels that they can gain for their price. They pay as long as a right
label costs less than it is worth. The *break-even* of an item is the price of a right label at which the best
plan would stop. Items with the highest break-even per dollar come first. The break-even considers several
votes together, because one vote alone may change nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Final, Protocol

from camvo.joint.joint_fit import JointFit, best_plan
from camvo.joint.plans import GradedWorth, Worth
from camvo.numerics.small import TIE
from camvo.policies.camvo import CaMVo
from camvo.policies.ensemble import Choice, Situation
from camvo.policies.joint import Joint
from camvo.policies.policy import Observation, Plan, Policy
from camvo.stages.stages import cheapest_first
from camvo.state.state import State
from camvo.typing import NO_CONFIDENCES, Array, Confidences, Votes
from camvo.votes.aggregation import Aggregation, Decision
from camvo.votes.labels import LABEL_VOTE

_QUESTION: Final = "label"
"""The name under which the policy sees the one question."""


@dataclass(frozen=True, slots=True, eq=False)
class PastRound:
    """A decided round on one question, as it was stored.

    Attributes:
        context: the embedding, shape (d,).
        votes: arm → its vote, ``None`` for an arm that was asked and gave no vote.
        labels: the label set, or the items to rank.
        costs: arm → the expected price of asking it about this task today, $, for every arm of today's pool.
        aggregation: how votes on the question become one answer.
        confidences: arm → how sure it said it was of its vote, in [0, 1], for the arms that said so.
    """

    context: Array
    votes: Mapping[str, str | None]
    labels: tuple[str, ...]
    costs: Mapping[str, float]
    aggregation: Aggregation = LABEL_VOTE
    confidences: Mapping[str, float] = field(default_factory=dict)

    @property
    def cast(self) -> Votes:
        """The votes of today's pool, in the form that policies take."""
        return {
            arm: {} if vote is None else {_QUESTION: vote}
            for arm, vote in self.votes.items()
            if arm in self.costs
        }

    @property
    def sure(self) -> Confidences:
        """The confidences, in the form that policies take."""
        return {arm: {_QUESTION: share} for arm, share in self.confidences.items() if arm in self.costs}

    def observation(self, state: State) -> Observation:
        """What a policy observes of the round's question in today's state."""
        return Observation(state, self.context, self.labels, self.aggregation)


_STEP: Final = 1.25
_STEPS: Final = 64
"""Break-evens are powers of 1.25, from about 4 right labels for each asking of everyone down to one in
400,000."""

_MOST: Final = 4.0


@dataclass(frozen=True, slots=True)
class FurtherValue:
    """The best use of further votes on one item.

    Attributes:
        break_even: the highest gain that can be required of asking everyone once, in right labels, so that
            further votes still pay; 0 if they gain nothing.
        arms: whom to ask first, at this price.
    """

    break_even: float = 0.0
    arms: tuple[str, ...] = ()


_NOTHING: Final = FurtherValue()


@dataclass(frozen=True, slots=True)
class _FurtherVotes:
    """The further votes on items of one question."""

    fit: JointFit
    shares: Mapping[str, float]
    _plans: dict[tuple[object, ...], Worth | GradedWorth] = field(default_factory=dict, repr=False)

    def on(self, context: Array, votes: Mapping[str, str | None], sure: Mapping[str, float]) -> FurtherValue:
        """Find the best use of further votes."""
        fit = self.fit.after_reply(votes, sure)
        own = fit.at(context, self.shares)
        failed = frozenset(arm for arm, vote in votes.items() if vote is None)
        if all(arm in votes for arm in own.shortlist):
            return _NOTHING
        node, tilt = own.plan_node(votes), own.tilt(votes, sure)
        shared = own is fit

        def asked(step: int) -> tuple[str, ...]:
            worth = self._plan(own, failed, step, shared=shared)
            stopping, asking = worth.at(node, tilt)
            if max(asking) <= max(stopping, own.unasked) + TIE:
                return ()
            return tuple([own.shortlist[arm] for arm in worth.together(node, tilt)])

        low, high = 0, _STEPS  # further votes do not pay at ``low``, and do at ``high``
        arms: tuple[str, ...] = ()
        while high - low > 1:
            middle = (low + high) // 2
            if wanted := asked(middle):
                high, arms = middle, wanted
            else:
                low = middle
        return FurtherValue(_MOST * _STEP**-high, arms) if arms else _NOTHING

    def _plan(self, fit: JointFit, failed: frozenset[str], step: int, *, shared: bool) -> Worth | GradedWorth:
        """The best plan if asking everyone has to gain ``_MOST · _STEP^−step`` right labels."""
        key = (fit.beliefs, failed, step)
        if shared and key in self._plans:
            return self._plans[key]
        rate = _MOST * _STEP**-step
        prices = [rate * self.shares[arm] / fit.answering[arm] for arm in fit.shortlist]
        plan = best_plan(fit, prices, failed)
        if shared:
            self._plans[key] = plan
        return plan


_DEARER: Final = 10.0
"""A gain may cost up to this many times its worth; if it costs more, its arms are not asked.

The limit is loose because the worth was computed from earlier prices and states, and examples alone make a
prompt several times as long. So only votes that have become pointless are left out.
"""

_FREE: Final = 1e-6
"""The least price of a model, as a share of the full price, so that free models have a finite value."""


@dataclass(frozen=True, kw_only=True)
class _Revisit(CaMVo):
    """CaMVo or CCaMVo on decided rounds: a round whose δ_A is below δ under today's state is in doubt.

    The arms to ask are the cheapest that make the votes confident enough (:meth:`.CaMVo.complement`). Their
    *gain* is by how much they raise δ_A, at most to δ, summed over the task's questions. δ_A bounds the
    probability that the label is right from below, so the gain counts in right labels.
    """

    worth_usd: float = math.inf

    @classmethod
    def of(cls, policy: CaMVo) -> _Revisit:
        """The policy on decided rounds, with the same parameters."""
        return cls(**{each.name: getattr(policy, each.name) for each in fields(CaMVo)})

    def worth_of(self, full: float) -> float:
        """Infinite: δ limits the votes of each round, and the budget the number of rounds."""
        return math.inf

    def policy_for(self, worth_usd: float) -> _Revisit:
        """The same policy, skipping votes that now cost far more than their gain in right labels is worth."""
        return replace(self, worth_usd=worth_usd)

    def choose(self, situation: Situation) -> Choice:
        """No arm: the round starts from the votes it already has."""
        return Choice(())

    def ask(self, plan: Plan, votes: Votes, *, confidences: Confidences = NO_CONFIDENCES) -> tuple[str, ...]:
        """The arms that the votes lack; none if these reach δ, or if more votes do not raise δ_A."""
        arms, gain = self.lacking(plan, votes)
        return arms if gain * self.worth_usd * _DEARER >= _price(plan, arms) else ()

    def lacking(self, plan: Plan, votes: Votes) -> tuple[tuple[str, ...], float]:
        """The arms that the votes lack to be confident enough, and their gain; none if no vote raises δ_A."""
        reached = self._reached(plan, votes)
        if min(reached) >= self.delta - TIE:
            return (), 0.0
        arms = self.complement(plan, votes)
        voted = {**votes, **{arm: dict.fromkeys(plan.estimates, "") for arm in arms}}
        gain = sum(self._reached(plan, voted)) - sum(reached)
        return (arms, gain) if gain > TIE else ((), 0.0)

    def further_votes(self, state: State, past: PastRound) -> FurtherValue:
        """The best use of further votes on a decided round."""
        plan = self.plan({_QUESTION: past.observation(state)}, past.costs)
        arms, gain = self.lacking(plan, past.cast)
        if not arms:
            return _NOTHING
        full = _price(plan, plan.arms)
        share = _price(plan, arms) / full if full > 0.0 else 1.0
        return FurtherValue(gain / max(share, _FREE), arms)

    def _reached(self, plan: Plan, votes: Votes) -> list[float]:
        """δ_A of the votes on each question, at most δ."""
        singly = (replace(plan, estimates={name: each}) for name, each in plan.estimates.items())
        return [min(self.confidence_in(question, votes), self.delta) for question in singly]


def _price(plan: Plan, arms: Sequence[str]) -> float:
    """What asking some of the plan's arms costs."""
    return float(sum(plan.costs[plan.arms.index(arm)] for arm in arms))


class FurtherPolicy(Protocol):
    """A policy's view of further votes on decided rounds."""

    def further_votes(self, state: State, past: PastRound) -> FurtherValue:
        """The best use of further votes on a decided round.

        The state of now and the round's ``costs`` are the same in every call. An arm whose vote is ``None``
        is not asked.
        """
        ...

    def policy_for(self, worth_usd: float) -> Policy:
        """The policy that asks for further votes on a decided task, at this worth of a right label."""
        ...

    def worth_of(self, full: float) -> float:
        """The worth of a right label about a task with this full price of all models; may be infinite."""
        ...


@dataclass(slots=True)
class _JointFurther:
    """The joint policy on the decided rounds of one question, which share one fit."""

    policy: Joint
    _known: _FurtherVotes | None = field(default=None, repr=False)

    def further_votes(self, state: State, past: PastRound) -> FurtherValue:
        if past.aggregation != LABEL_VOTE:
            return _NOTHING
        if self._known is None:
            fit = self.policy.joint_fit(past.observation(state), past.costs)
            if not isinstance(fit, JointFit):
                return _NOTHING
            self._known = _FurtherVotes(fit, dict(zip(*cheapest_first(past.costs), strict=True)))
        return self._known.on(past.context, past.votes, past.confidences)

    def policy_for(self, worth_usd: float) -> Policy:
        return self.policy.policy_for(worth_usd)

    def worth_of(self, full: float) -> float:
        return self.policy.worth_of(full)


def further_policy(policy: Policy) -> FurtherPolicy | None:
    """A policy's view of further votes on one question; ``None`` if it has none.

    >>> import camvo
    >>> further_policy(camvo.Baseline()) is None
    True
    """
    if isinstance(policy, Joint):
        return _JointFurther(policy)
    return _Revisit.of(policy) if isinstance(policy, CaMVo) else None


def recount(policy: Policy, state: State, past: PastRound) -> Decision | None:
    """Decide a past round again, by the votes that were cast and by the current state.

    The state is not changed. It has learnt from the round itself, as from every other round. A fit that
    the policy needs is computed for the first round and kept for the others of the same labels and arms.

    Args:
        policy: the project's policy of today.
        state: the question's state of today.
        past: the round; votes of arms outside its ``costs`` are ignored.

    Returns:
        The decision; ``None`` if no arm of ``costs`` voted.

    Raises:
        InvalidParameterError: the context does not fit the state, or ``costs`` is empty.

    >>> import camvo
    >>> import numpy as np
    >>> policy, east = camvo.Baseline(), np.array([1.0, 0.0])
    >>> question = camvo.Question(("neg", "pos"), prices={"a": 1.0, "b": 1.0}, dimension=2, policy=policy)
    >>> past = PastRound(east, {"a": "neg", "b": "pos"}, ("neg", "pos"), {"a": 1.0, "b": 1.0})
    >>> recount(policy, question.state, past).label
    'neg'
    >>> for _ in range(20):  # "b" turns out to be right, and "a" wrong
    ...     task = question.task(east)
    ...     task.add({"a": "neg", "b": "pos"})
    ...     task.learn(human="pos")
    >>> recount(policy, question.state, past).label
    'pos'
    """
    plan = policy.plan({_QUESTION: past.observation(state)}, past.costs)
    return policy.decide(plan, past.cast, confidences=past.sure).get(_QUESTION)
