"""Stages that go on while another vote is expected to be worth its price."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from camvo.numerics.tolerances import TIE
from camvo.stages.stack_stops import Stops
from camvo.stages.stages import UNKNOWN, Cast, KeptKind, Sure
from camvo.state.vote_patterns import ExplorationRound
from camvo.votes.decision import Decision
from camvo.weights.grades import NO_GRADES, Grades
from camvo.weights.stacking import StackedVote


@dataclass(frozen=True, slots=True)
class WorthStages:
    """The stages of one question, by the expected worth of another vote.

    Attributes:
        stops: the prefixes after which to pause, and the margins at which to stop there.
        stack: the stacked vote, which decides; ``None`` for a question whose votes are not labels, which asks
            all arms.
        labels: the label set.
        weights: arm → ω of its vote.
        grades: what the arms' confidences are worth.
    """

    stops: Stops
    stack: StackedVote | None
    labels: tuple[str, ...]
    weights: Mapping[str, float]
    grades: Grades = NO_GRADES

    @property
    def first(self) -> int:
        """How many arms of the order are asked independently of the votes."""
        return self.stops.upto[0]

    @property
    def kept(self) -> KeptKind | None:
        """Rounds with a human label and rounds that ask all arms; ``None`` if the votes are not labels."""
        return None if self.stack is None else "everyone"

    def upto(self, stage: int, order: Sequence[str], asked: int, votes: Cast, sure: Sure = UNKNOWN) -> int:
        """How many arms of ``order`` to have asked after the next stage; ``asked`` or fewer means stop."""
        if self.stack is None:
            return self.first
        if not any(votes.values()):
            return self.stops.after(asked, -math.inf)
        log_ratios = self.grades.log_ratios(votes, sure)
        _, margin = self.stack.leader(votes, self.weights, self.labels, log_ratios)
        return self.stops.after(asked, margin)

    def decision(
        self, decision: Decision, votes: Cast, labels: Sequence[str], sure: Sure = UNKNOWN
    ) -> Decision:
        """The most probable label that got a vote; the weighted vote breaks a tie.

        Before the first human label, and without confidences, the decision stays that of the weighted vote.
        """
        log_ratios = self.grades.log_ratios(votes, sure)
        if self.stack is None or not (self.stack.arms or log_ratios):
            return decision
        posterior = self.stack.probabilities(votes, self.weights, labels, log_ratios)
        leader, margin = self.stack.leader(votes, self.weights, labels, log_ratios)
        label = decision.label
        if posterior[label] < posterior[leader] - TIE:
            label = leader
        score = self.stops.score(len(votes), margin)
        if score is not None:
            posterior = _with_score(posterior, label, score)
        return Decision(label, posterior[label], posterior, self.stack.trust)

    def exploration_round(self, order: Sequence[str], first: int, votes: Cast) -> ExplorationRound | None:
        """``None``: rounds that asked all arms are kept whole instead."""
        return None

    def describe(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The stops and the stacked vote as plain JSON.

        A stage at which no round stops has the margin ``null``.
        """
        least = [margin if math.isfinite(margin) else None for margin in self.stops.least[:-1]]
        stops = {"upto": list(self.stops.upto), "least": least, "scores": [*map(list, self.stops.scores)]}
        return {}, {"stops": stops} | ({} if self.stack is None else {"stack": self.stack.describe()}) | (
            {"grades": self.grades.describe()} if self.grades.arms else {}
        )


def _with_score(posterior: Mapping[str, float], label: str, score: float) -> dict[str, float]:
    """The posterior with ``score`` for ``label``; the other labels keep their proportions."""
    rest = math.fsum([probability for other, probability in posterior.items() if other != label])
    if not rest:
        return dict(posterior)
    return {
        other: score if other == label else probability / rest * (1.0 - score)
        for other, probability in posterior.items()
    }
