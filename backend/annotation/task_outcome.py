"""The outcome of asking models about a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from camvo.policies.plan import Plan
from camvo.policies.policy import Policy
from camvo.stages.cast import on_question
from camvo.student.taught_texts import StudiedText
from camvo.twins.same_model import once_each
from camvo.typing import Confidences
from camvo.votes import registry
from camvo.votes.decision import Decision


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """The votes on a task's questions, and how they were decided.

    Attributes:
        policy: the policy that planned and decided.
        plan: its plan.
        votes: for each model asked, its votes by question; empty if the call failed.
        decisions: by question, for the questions that got a vote.
        costs: the cost of each model asked, in $.
        scores: the calibrated score by question, for questions whose policy score was calibrated.
        examples: the tasks shown as examples.
        shown: how many examples each model's prompt had.
        confidences: for each model that says how sure it is, its confidences by question.
        versions: the version that each model's answer reports, for those that report one.
        studied: question → its text, which teaches the student.
        packs: question → packed arm → whether its vote was that of its model, asked singly; of the arms that
            were compared.
    """

    policy: Policy
    plan: Plan
    votes: Mapping[str, Mapping[str, str]]
    decisions: Mapping[str, Decision]
    costs: Mapping[str, float]
    scores: Mapping[str, float]
    examples: Sequence[int] = ()
    shown: Mapping[str, int] = field(default_factory=dict)
    confidences: Confidences = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    studied: Mapping[str, StudiedText] = field(default_factory=dict)
    packs: Mapping[str, Mapping[str, bool]] = field(default_factory=dict)

    @property
    def cost(self) -> float:
        """What was paid, in $."""
        return sum(self.costs.values())

    @property
    def full_cost(self) -> float:
        """The cost of asking every model once, in $, each by its cheaper arm.

        For arms not asked it is their expected price.
        """
        expected = dict(zip(self.plan.arms, map(float, self.plan.costs), strict=True))
        return sum(once_each(expected | dict(self.costs)).values())

    def describe(self, question: str) -> dict[str, Any]:
        """The JSON that a round stores: the plan, the aggregation and the policy's own score.

        The confidences, the label for the student's text and the examples are in it if there are any.
        """
        aggregation = self.plan.estimates[question].aggregation
        description: dict[str, Any] = {
            "aggregation": registry.describe_aggregation(aggregation),
            "score": self.decisions[question].score,
        }
        if sure := on_question(self.confidences, question):
            description["confidences"] = sure
        if self.versions:
            description["versions"] = dict(self.versions)
        if question in self.studied:
            description["studied"] = self.studied[question].to_list()
        if self.examples:
            description["examples"] = list(self.examples)
        return self.plan.describe(question) | description
