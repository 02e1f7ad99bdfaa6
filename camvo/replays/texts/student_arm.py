"""The student in a replay: what it says of each item, and what each item teaches it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from camvo.errors import InvalidParameterError
from camvo.policies import studying
from camvo.policies.plan import Plan
from camvo.policies.policy import Policy
from camvo.replays.votes_table import VotesTable
from camvo.state.contribution import Contribution
from camvo.state.state import State
from camvo.student.ngrams import hashed_ngrams
from camvo.student.student import StudentVote, teach
from camvo.student.taught_texts import STUDENT, TaughtText
from camvo.typing import Confidences, Votes

QUESTION: Final = "label"
"""The name under which the policy sees the table's one question."""


def has_student(policy: Policy, table: VotesTable, wanted: bool | None) -> bool:
    """Whether the student votes in a replay.

    Args:
        policy: the policy to replay.
        table: the items.
        wanted: ``None`` for what the policy has by default, where the table has texts.
    """
    able = studying.has_student(policy)
    return able and (table.texts is not None if wanted is None else wanted)


class StudentArm:
    """The student of one replay.

    Args:
        state: the state that holds the texts that teach it.
        table: the items, with texts.

    Raises:
        InvalidParameterError: the table has no texts.
    """

    def __init__(self, state: State, table: VotesTable) -> None:
        if table.texts is None:
            raise InvalidParameterError("the student needs the texts of the items")
        self._state = state
        self._ngrams = [hashed_ngrams(text) for text in table.texts]

    def vote(self, item: int) -> StudentVote | None:
        """What the student says of an item, by what the state knows now; ``None`` if it says nothing."""
        student = teach(self._state.texts.lessons)
        return None if student is None else student.vote(self._ngrams[item])

    def taught_too(  # noqa: PLR0917 - a round, as policies take it
        self,
        lesson: Contribution,
        item: int,
        policy: Policy,
        plan: Plan,
        votes: Votes,
        confidences: Confidences,
    ) -> Contribution:
        """The contribution, which also teaches the student the label that the other arms voted for.

        If none of them voted, or the student has enough texts, it teaches the student nothing.
        """
        others = {arm: answers for arm, answers in votes.items() if arm != STUDENT}
        sure = {arm: answers for arm, answers in confidences.items() if arm != STUDENT}
        decision = policy.decide(plan, others, confidences=sure).get(QUESTION)
        if decision is None or self._state.texts.full:
            return lesson
        return self._taught(lesson, item, decision.label)

    def taught_by_human(self, lesson: Contribution, item: int, label: str) -> Contribution:
        """The contribution, which also teaches the student a human's label."""
        return self._taught(lesson, item, label)

    def _taught(self, lesson: Contribution, item: int, label: str) -> Contribution:
        return replace(lesson, taught=TaughtText(self._ngrams[item], label))
