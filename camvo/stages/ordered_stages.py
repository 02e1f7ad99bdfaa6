"""Stages in a fixed order: how far a task goes along it depends on the votes."""

from __future__ import annotations

from dataclasses import dataclass

from camvo.stages.agreement_stages import AgreementStages
from camvo.stages.stages import UNKNOWN, Cast, Stages, Sure
from camvo.state.vote_patterns import ExplorationRound
from camvo.typing import NO_CONFIDENCES, Confidences, Votes


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedStages(Stages[AgreementStages]):
    """The stages of a task that asks its arms in a fixed order.

    Attributes:
        order: all arms, in the order of asking.
        moves: how many stages may follow the first.
    """

    moves: int

    @property
    def first(self) -> tuple[str, ...]:
        """The arms of the first stage, which are asked independently of the votes."""
        if self.exploration == "everyone":
            return self.order
        return self.order[: max(question.first for question in self.questions.values())]

    def after(self, votes: Votes, confidences: Confidences = NO_CONFIDENCES) -> tuple[str, ...]:
        """The arms to ask now, given the votes so far; empty if every question can be decided.

        Confidences do not count: a certificate is about the weights of votes.
        """
        asked = len(self.first)
        for stage in range(self.moves + 1):
            missing = tuple([arm for arm in self.order[:asked] if arm not in votes])
            if missing or stage == self.moves:
                return missing
            upto = max(
                question.upto(stage, self.order, asked, self._cast(name, votes, asked))
                for name, question in self.questions.items()
            )
            if upto <= asked:
                break
            asked = upto
        return ()

    def exploration_round(self, question: str, votes: Cast, sure: Sure = UNKNOWN) -> ExplorationRound | None:
        """What the round shows about ``question``; ``None`` unless the exploration draw extended it."""
        if self.exploration == "nobody":
            return None
        return self.questions[question].exploration_round(self.order, len(self.first), votes)

    def _cast(self, question: str, votes: Votes, asked: int) -> dict[str, str | None]:
        return {arm: votes[arm].get(question) for arm in self.order[:asked]}
