"""A decided round as it was stored, and what a policy of today sees of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from camvo.policies.estimates import Observation
from camvo.state.state import State
from camvo.typing import Array, Confidences, Votes
from camvo.votes.aggregation import Aggregation
from camvo.votes.labels import LABEL_VOTE

QUESTION: Final = "label"
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
            arm: {} if vote is None else {QUESTION: vote}
            for arm, vote in self.votes.items()
            if arm in self.costs
        }

    @property
    def sure(self) -> Confidences:
        """The confidences, in the form that policies take."""
        return {arm: {QUESTION: share} for arm, share in self.confidences.items() if arm in self.costs}

    def observation(self, state: State) -> Observation:
        """What a policy observes of the round's question in today's state."""
        return Observation(state, self.context, self.labels, self.aggregation)
