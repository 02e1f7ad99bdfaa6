"""One question that is asked while another vote is expected to be worth its price."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from camvo.numerics.tolerances import TIE
from camvo.stages.stack_stops import Stops
from camvo.stages.stages import Cast, KeptKind
from camvo.state.vote_patterns import ExplorationRound
from camvo.votes.decision import Decision
from camvo.weights.stacking import StackedVote


@dataclass(frozen=True, slots=True)
class WorthStages:
    """How one question is asked about by what a vote is worth.

    Attributes:
        stops: where to pause and when to stop.
        stack: what decides; ``None`` for a question whose votes are no labels: everyone is asked.
        labels: the label set.
        weights: arm → ω of its vote.
    """

    stops: Stops
    stack: StackedVote | None
    labels: tuple[str, ...]
    weights: Mapping[str, float]

    @property
    def first(self) -> int:
        """How many arms of the order are asked independently of the votes."""
        return self.stops.upto[0]

    @property
    def kept(self) -> KeptKind | None:
        """Rounds that a human labels and rounds that ask everyone, if the votes are labels."""
        return None if self.stack is None else "everyone"

    def upto(self, stage: int, order: Sequence[str], asked: int, votes: Cast) -> int:
        """How many arms of ``order`` are to be asked in all; ``asked`` means stop."""
        if self.stack is None:
            return self.first
        margin = self.stack.leader(votes, self.weights, self.labels)[1] if any(votes.values()) else -math.inf
        return self.stops.after(asked, margin)

    def decision(self, decision: Decision, votes: Cast, labels: Sequence[str]) -> Decision:
        """The likeliest of the labels that got a vote; the weighted vote decides a tie.

        Without a human label it is the weighted vote with its own score.
        """
        if self.stack is None or not self.stack.arms:
            return decision
        chances = self.stack.probabilities(votes, self.weights, labels)
        leader, margin = self.stack.leader(votes, self.weights, labels)
        label = decision.label
        if chances[label] < chances[leader] - TIE:
            label = leader
        score = self.stops.score(len(votes), margin)
        if score is not None:
            chances = _with_score(chances, label, score)
        return Decision(label, chances[label], chances, self.stack.trust)

    def exploration_round(self, order: Sequence[str], first: int, votes: Cast) -> ExplorationRound | None:
        """``None``: rounds that asked everyone are kept whole instead."""
        return None

    def describe(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Plain JSON; a stage that is never the last has ``null`` for the margin that would be enough."""
        least = [margin if math.isfinite(margin) else None for margin in self.stops.least[:-1]]
        stops = {"upto": list(self.stops.upto), "least": least, "scores": [*map(list, self.stops.scores)]}
        return {}, {"stops": stops} | ({} if self.stack is None else {"stack": self.stack.describe()})


def _with_score(chances: Mapping[str, float], label: str, score: float) -> dict[str, float]:
    """The probabilities with that of ``label`` replaced; the others share the rest in their proportions."""
    rest = math.fsum([chance for other, chance in chances.items() if other != label])
    if not rest:
        return dict(chances)
    return {
        other: score if other == label else chance / rest * (1.0 - score) for other, chance in chances.items()
    }
