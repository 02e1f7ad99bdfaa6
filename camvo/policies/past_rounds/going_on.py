"""Going on with decided rounds: what further votes would bring there, and which to ask for.

A further vote is a vote of a model that the round had left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from camvo.joint.plans.further_votes import NOTHING, FurtherVotes, GoingOn
from camvo.policies.camvo import CaMVo
from camvo.policies.joint import Joint
from camvo.policies.past_rounds.past_round import PastRound
from camvo.policies.past_rounds.revisit import Revisit
from camvo.policies.policy import Policy
from camvo.stages.asking_order import cheapest_first
from camvo.state.state import State
from camvo.votes.labels import LABEL_VOTE


class GoesOn(Protocol):
    """What a policy says of further votes."""

    def further_votes(self, state: State, past: PastRound) -> GoingOn:
        """The best use of further votes on a decided round.

        Args:
            state: the question's state of now, the same in every call.
            past: the round; its ``costs`` are the same in every call. An arm whose vote is ``None`` is not
                asked.
        """
        ...

    def going_on(self, worth_usd: float) -> Policy:
        """The policy that asks for further votes on a decided task, beginning with the votes that are there.

        Args:
            worth_usd: what one more right label is worth, in the unit of the prices; positive and finite.
        """
        ...

    def worth_of(self, full: float) -> float:
        """The worth of one more right label about a task, in the unit of the prices; may be infinite.

        Args:
            full: what asking all models about the task costs.
        """
        ...


@dataclass(slots=True)
class _JointGoesOn:
    """The joint policy on the decided rounds of one question, which share one fit."""

    policy: Joint
    _known: FurtherVotes | None = field(default=None, repr=False)

    def further_votes(self, state: State, past: PastRound) -> GoingOn:
        if past.aggregation != LABEL_VOTE:
            return NOTHING
        if self._known is None:
            fit = self.policy.joint_fit(past.observation(state), past.costs)
            if fit is None:
                return NOTHING
            self._known = FurtherVotes(fit, dict(zip(*cheapest_first(past.costs), strict=True)))
        return self._known.on(past.context, past.votes, past.confidences)

    def going_on(self, worth_usd: float) -> Policy:
        return self.policy.going_on(worth_usd)

    def worth_of(self, full: float) -> float:
        return self.policy.worth_of(full)


def goes_on(policy: Policy) -> GoesOn | None:
    """What a policy says of further votes on one question; ``None`` if it says nothing of them.

    >>> import camvo
    >>> goes_on(camvo.Baseline()) is None
    True
    """
    if isinstance(policy, Joint):
        return _JointGoesOn(policy)
    return Revisit.of(policy) if isinstance(policy, CaMVo) else None
