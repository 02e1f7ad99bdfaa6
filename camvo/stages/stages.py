"""In which order arms are asked about a task and when to stop; frozen in the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from camvo.stages.exploration import Exploration
from camvo.state.vote_patterns import ExplorationRound
from camvo.typing import Votes
from camvo.votes.decision import Decision

Cast: TypeAlias = Mapping[str, str | None]
"""The votes on one question: arm → label, ``None`` if it gave none, absent if it was not asked."""

KeptKind: TypeAlias = Literal["labelled", "everyone"]
"""Which rounds a policy keeps whole: those that a human labels, or also those that asked everyone."""


class QuestionStages(Protocol):
    """How one question of a task is asked about. Nothing in it changes once the plan is made."""

    @property
    def first(self) -> int:
        """How many arms of the order are asked independently of the votes."""
        ...

    @property
    def kept(self) -> KeptKind | None:
        """Which rounds are kept whole; ``None`` if the votes on the question are no labels."""
        ...

    def upto(self, stage: int, order: Sequence[str], asked: int, votes: Cast) -> int:
        """How many arms of ``order`` are to be asked in all; ``asked`` or fewer means stop.

        Args:
            stage: how many stages came before, counted from 0.
            order: all arms, in the order of asking.
            asked: how many of them were asked so far.
            votes: the votes so far.
        """
        ...

    def decision(self, decision: Decision, votes: Cast, labels: Sequence[str]) -> Decision:
        """The decision after human labels had their say; ``decision`` is that of the weighted vote."""
        ...

    def exploration_round(self, order: Sequence[str], first: int, votes: Cast) -> ExplorationRound | None:
        """What an exploration round shows, or ``None`` if the policy does not learn from its vote pattern."""
        ...

    def describe(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Plain JSON: what is stored under ``stages`` in a plan's description, and what beside it."""
        ...


def teachers(order: Sequence[str], first: int, *, human: bool) -> frozenset[str]:
    """The arms whose rewards say how good they are: those that were not asked because of the votes.

    A voted label of fewer than all arms agrees with the arms that made it, so it teaches nothing. A human's
    label teaches about the arms of the first stage.

    Args:
        order: all arms, in the order of asking.
        first: how many of them were asked independently of the votes.
        human: whether the label is a human's.
    """
    return frozenset(order[:first] if human or first == len(order) else ())


@dataclass(frozen=True, slots=True)
class Stages:
    """How a task is asked about. It goes on while any of its questions wants to.

    Attributes:
        order: the arms, in the order of asking.
        exploration: what the draw said.
        propensity: as it is stored: the probability of asking everyone, and where the policy draws for
            certificates too, a pair with the probability of asking at least until the label is certain.
        moves: how often more arms may be asked after the first stage.
        questions: question → how it is asked about.
    """

    order: tuple[str, ...]
    exploration: Exploration
    propensity: float | tuple[float, float]
    moves: int
    questions: Mapping[str, QuestionStages]

    @property
    def first(self) -> tuple[str, ...]:
        """The arms that are asked independently of the votes."""
        if self.exploration == "everyone":
            return self.order
        return self.order[: max(question.first for question in self.questions.values())]

    def after(self, votes: Votes) -> tuple[str, ...]:
        """The arms to ask now, given the votes so far; none if every question is decided."""
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

    def exploration_round(self, question: str, votes: Cast) -> ExplorationRound | None:
        """What the round shows about ``question``; ``None`` unless the draw extended it."""
        if self.exploration == "nobody":
            return None
        return self.questions[question].exploration_round(self.order, len(self.first), votes)

    def describe(self, question: str) -> dict[str, Any]:
        """One question's part of a plan's description, as plain JSON."""
        stages, beside = self.questions[question].describe()
        common = {
            "order": list(self.order),
            "coin": self.exploration,
            "propensity": list(self.propensity) if isinstance(self.propensity, tuple) else self.propensity,
            "first": len(self.first),
            "kept": self.questions[question].kept,
        }
        return {"stages": common | stages} | beside

    def _cast(self, question: str, votes: Votes, asked: int) -> dict[str, str | None]:
        return {arm: votes[arm].get(question) for arm in self.order[:asked]}
