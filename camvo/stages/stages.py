"""What every policy that asks in stages puts into a plan: whom to ask now, and when to stop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Generic, Literal, Protocol, TypeAlias, TypeVar

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

``"labelled"`` keeps rounds with a human label. ``"everyone"``, which only rounds of older versions have, also
keeps rounds that asked all arms.
"""


class QuestionStages(Protocol):
    """The stages of one question of a task. Immutable."""

    @property
    def kept(self) -> KeptKind | None:
        """Which rounds are kept whole; ``None`` for a question whose votes are not labels."""
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


Question_co = TypeVar("Question_co", bound=QuestionStages, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages(Generic[Question_co]):
    """The stages of a task. Asking goes on while any of its questions needs more votes.

    Attributes:
        order: all arms. Those of the first stage come first.
        exploration: the outcome of the exploration draw.
        propensity: the probability of asking all arms, in the form that is stored. If the policy also draws
            for certain labels, it is a pair, whose second part is the probability of asking at least until
            the label is certain.
        questions: question → its stages.
    """

    order: tuple[str, ...]
    exploration: Exploration
    propensity: float | tuple[float, float]
    questions: Mapping[str, Question_co]

    @property
    def first(self) -> tuple[str, ...]:
        """The arms of the first stage, which are asked independently of the votes."""
        raise NotImplementedError

    def after(self, votes: Votes, confidences: Confidences = NO_CONFIDENCES) -> tuple[str, ...]:
        """The arms to ask now, given the votes so far; empty if every question can be decided."""
        raise NotImplementedError

    def exploration_round(self, question: str, votes: Cast, sure: Sure = UNKNOWN) -> ExplorationRound | None:
        """What the round shows about ``question``; ``None`` if it shows nothing."""
        raise NotImplementedError

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
