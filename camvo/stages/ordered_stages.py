"""Stages in a fixed order: how far a task goes along it depends on the votes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from camvo.stages.stages import UNKNOWN, Cast, QuestionStages, Stages, Sure, on_question
from camvo.state.vote_patterns import ExplorationRound
from camvo.typing import NO_CONFIDENCES, Confidences, Votes


class OrderedQuestion(QuestionStages, Protocol):
    """The stages of one question whose arms are asked in a fixed order. Immutable."""

    @property
    def first(self) -> int:
        """How many arms of the order are asked independently of the votes."""
        ...

    def upto(self, stage: int, order: Sequence[str], asked: int, votes: Cast, sure: Sure = UNKNOWN) -> int:
        """How many arms of ``order`` to have asked after the next stage; ``asked`` or fewer means stop.

        Args:
            stage: how many stages came before, counted from 0.
            order: all arms, in the order of asking.
            asked: how many arms of ``order`` were asked so far.
            votes: the votes so far.
            sure: the confidences of these votes.
        """
        ...

    def exploration_round(self, order: Sequence[str], first: int, votes: Cast) -> ExplorationRound | None:
        """What an exploration round shows; ``None`` if the policy does not learn from vote patterns.

        Args:
            order: all arms, in the order of asking.
            first: how many arms of ``order`` were asked independently of the votes.
            votes: the votes of the arms that were asked.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedStages(Stages[OrderedQuestion]):
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
        """The arms to ask now, given the votes so far; empty if every question can be decided."""
        sure = {question: on_question(confidences, question) for question in self.questions}
        asked = len(self.first)
        for stage in range(self.moves + 1):
            missing = tuple([arm for arm in self.order[:asked] if arm not in votes])
            if missing or stage == self.moves:
                return missing
            upto = max(
                question.upto(stage, self.order, asked, self._cast(name, votes, asked), sure[name])
                for name, question in self.questions.items()
            )
            if upto <= asked:
                break
            asked = upto
        return ()

    def exploration_round(self, question: str, votes: Cast) -> ExplorationRound | None:
        """What the round shows about ``question``; ``None`` unless the exploration draw extended it."""
        if self.exploration == "nobody":
            return None
        return self.questions[question].exploration_round(self.order, len(self.first), votes)

    def _cast(self, question: str, votes: Votes, asked: int) -> dict[str, str | None]:
        return {arm: votes[arm].get(question) for arm in self.order[:asked]}
