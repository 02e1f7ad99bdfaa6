"""What the student says of a task, before any model is asked, and what the task will teach it."""

from __future__ import annotations

from dataclasses import dataclass, field

from backend.annotation.job import JobQuestion
from backend.annotation.voters import ModelReply
from backend.learning.background_fits import Students
from backend.learning.states import StateKey
from camvo.policies.plan import Plan
from camvo.policies.policy import Policy
from camvo.state.state import State
from camvo.student.ngrams import hashed_ngrams
from camvo.student.taught_texts import STUDENT, StudiedText
from camvo.typing import Confidences, Votes
from camvo.votes.labels import LABEL_VOTE


@dataclass(frozen=True, slots=True)
class StudentReply:
    """What the student says of a task's questions. It costs nothing.

    Attributes:
        votes: question → label; questions of which it says nothing are absent.
        confidences: question → the probability in [0, 1] that its label will come out.
        texts: question → the features of its text, where the text may teach.
    """

    votes: dict[str, str] = field(default_factory=dict)
    confidences: dict[str, float] = field(default_factory=dict)
    texts: dict[str, bytes] = field(default_factory=dict)

    def hear(self, students: Students, key: StateKey, state: State, question: JobQuestion) -> None:
        """Ask the student about one question; questions whose votes are not labels are left out."""
        if question.aggregation != LABEL_VOTE:
            return
        ngrams = hashed_ngrams(question.question.context)
        student = students.current(key, state.texts.lessons)
        vote = None if student is None else student.vote(ngrams)
        if vote is not None and vote.label in question.question.options:
            self.votes[question.name] = vote.label
            self.confidences[question.name] = vote.confidence
        if not state.texts.full:
            self.texts[question.name] = ngrams

    @property
    def replies(self) -> dict[str, ModelReply]:
        """The reply as one of an arm."""
        return {STUDENT: ModelReply(self.votes, 0.0, confidences=self.confidences)}

    def studied(
        self, policy: Policy, plan: Plan, votes: Votes, confidences: Confidences
    ) -> dict[str, StudiedText]:
        """Question → its text, beside the label that the other arms voted for."""
        others = {arm: answers for arm, answers in votes.items() if arm != STUDENT}
        sure = {arm: answers for arm, answers in confidences.items() if arm != STUDENT}
        decisions = policy.decide(plan, others, confidences=sure) if self.texts else {}
        return {
            name: StudiedText(ngrams, decisions[name].label if name in decisions else None)
            for name, ngrams in self.texts.items()
        }
