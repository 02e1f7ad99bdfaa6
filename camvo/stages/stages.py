"""The order in which a task asks its arms, and when it stops. A plan holds both, frozen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, Protocol, TypeAlias

from camvo.stages.exploration import Exploration
from camvo.state.vote_patterns import ExplorationRound
from camvo.typing import NO_CONFIDENCES, Confidences, Votes
from camvo.votes.decision import Decision

Cast: TypeAlias = Mapping[str, str | None]
"""Votes on one question: arm → label, ``None`` if it gave no vote. Arms that were not asked are absent."""

Sure: TypeAlias = Mapping[str, float]
"""Confidences on one question: arm → confidence in [0, 1]. Arms that gave none are absent."""

UNKNOWN: Final[Sure] = MappingProxyType({})
"""The confidences on one question if no arm gave one."""

KeptKind: TypeAlias = Literal["labelled", "everyone"]
"""Which rounds a policy keeps whole.

``"labelled"`` keeps rounds with a human label; ``"everyone"`` also keeps rounds that asked all arms.
"""


class QuestionStages(Protocol):
    """The stages of one question of a task. Immutable."""

    @property
    def first(self) -> int:
        """How many arms of the order are asked independently of the votes."""
        ...

    @property
    def kept(self) -> KeptKind | None:
        """Which rounds are kept whole; ``None`` for a question whose votes are not labels."""
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

    def decision(
        self, decision: Decision, votes: Cast, labels: Sequence[str], sure: Sure = UNKNOWN
    ) -> Decision:
        """Correct the decision by what human labels have taught, and by how sure the arms are.

        Args:
            decision: the decision of the weighted vote.
            votes: the votes of the arms that were asked.
            labels: the label set.
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

    def describe(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Two parts of a plan's description as plain JSON: entries of ``stages``, and entries beside it."""
        ...


def teachers(order: Sequence[str], first: int, *, human: bool) -> frozenset[str]:
    """The arms that get a reward from a round.

    An arm that was asked because of the votes gets none: it was asked only where the others disagreed, so its
    rewards would understate its skill. A human label rewards the arms of the first stage. A voted label
    rewards arms only if all of them were asked independently of the votes, because the label of a few arms
    agrees with those arms.

    Args:
        order: all arms, in the order of asking.
        first: how many arms of ``order`` were asked independently of the votes.
        human: whether the label is a human's.
    """
    return frozenset(order[:first] if human or first == len(order) else ())


def on_question(confidences: Confidences, question: str) -> Sure:
    """The confidences of the arms' votes on one question."""
    return {arm: answers[question] for arm, answers in confidences.items() if question in answers}


@dataclass(frozen=True, slots=True)
class Stages:
    """The stages of a task. Asking goes on while any of its questions needs more votes.

    Attributes:
        order: all arms, in the order of asking.
        exploration: the outcome of the exploration draw.
        propensity: the probability of asking all arms, in the form that is stored. If the policy also draws
            for certain labels, it is a pair, whose second part is the probability of asking at least until
            the label is certain.
        moves: how many stages may follow the first.
        questions: question → its stages.
    """

    order: tuple[str, ...]
    exploration: Exploration
    propensity: float | tuple[float, float]
    moves: int
    questions: Mapping[str, QuestionStages]

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
