"""The tasks on which people disagree with one another, or with a vote that is nearly certain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from sqlalchemy import Connection

from backend.learning.annotators.peoples_answers import AnsweredQuestion, answered_questions
from backend.learning.human_labels import person
from backend.ledger.annotators import reliabilities
from backend.ledger.annotators.judged_rounds import JudgedRound
from camvo.annotators.coins import PRIOR_PERSON
from camvo.votes.labels import LABEL_VOTE, label_posterior

CERTAIN: Final = 0.9
"""The score from which a vote is certain enough to be held against people."""

_VOTE: Final = "the vote"


@dataclass(frozen=True, slots=True)
class DisputedTask:
    """A task to adjudicate, and why.

    Attributes:
        task: the task's number.
        control: the question's control tag.
        wrong: the probability that the label in force, which is the people's or without one the vote's, is
            wrong.
        answers: what people said → how many of them; ``None`` for answers outside a closed set, which may
            quote the text.
        people: how many people answered.
        label: the voted label; ``None`` outside a closed set, without a round, and for a blind task.
        score: the probability that it is right; ``None`` without a round and for a blind task.
    """

    task: int
    control: str
    wrong: float
    answers: Mapping[str, int] | None
    people: int
    label: str | None
    score: float | None

    @property
    def why(self) -> str:
        """The reason, in a few words."""
        if self.answers is None:
            return f"{self.people} people gave different answers"
        said = ", ".join(
            f"{count} {'says' if count == 1 else 'say'} {label}" for label, count in self.answers.items()
        )
        if len(self.answers) > 1 or self.label is None:
            return said
        return f"{said}, the vote says {self.label}"


def disputed_tasks(connection: Connection, project: str, limit: int) -> list[DisputedTask]:
    """Return the ``limit`` disputed tasks whose label is most probably wrong, the worst first.

    A task with a ground truth is settled. Whether a blind task is disputed does not depend on its vote: if it
    did, people would look again just where the vote differs, and the guarantee would not hold.
    """
    found = [
        disputed
        for question in answered_questions(connection, project)
        for disputed in _of_question(question, _accuracies(connection, project, question.control))
    ]
    return sorted(found, key=lambda disputed: (-disputed.wrong, disputed.task))[:limit]


def _accuracies(connection: Connection, project: str, control: str) -> Mapping[str, float]:
    fits = reliabilities.latest(connection, project, control)
    return fits[0].accuracies if fits else {}


def _of_question(question: AnsweredQuestion, accuracies: Mapping[str, float]) -> list[DisputedTask]:
    found = []
    for task, counted in question.annotations.items():
        if any(annotation.ground_truth for annotation in counted):
            continue
        round_ = question.rounds.get(task)
        vote = None if round_ is None or round_.audit else round_
        answers = {person(annotation): annotation.labels[question.control] for annotation in counted}
        wrong = _chance_of_error(
            question, answers, vote, None if round_ is None else round_.human, accuracies
        )
        if wrong is None:
            continue
        closed = question.aggregation == LABEL_VOTE
        counts = dict(Counter(answers.values()).most_common()) if closed else None
        label = vote.label if vote is not None and closed else None
        score = None if vote is None else vote.score
        found.append(DisputedTask(task, question.control, wrong, counts, len(answers), label, score))
    return found


def _chance_of_error(
    question: AnsweredQuestion,
    answers: Mapping[str, str],
    vote: JudgedRound | None,
    human: str | None,
    accuracies: Mapping[str, float],
) -> float | None:
    """The probability that the label in force is wrong; ``None`` if nobody disagrees."""
    reward = question.aggregation.reward
    said = list(answers.values())
    against = (
        vote is not None and vote.score >= CERTAIN and any(reward(vote.label, one) < 1.0 for one in said)
    )
    if not against and all(reward(one, said[0]) == 1.0 for one in said):
        return None
    in_force = human or (said[0] if vote is None else vote.label)
    if not question.is_labels:
        return 1.0 - fmean(reward(one, in_force) for one in said)
    chance = 1.0 / len(question.options)
    right = {name: max(accuracies.get(name, PRIOR_PERSON), chance) for name in answers}
    votes = dict(answers)
    if vote is not None:
        votes[_VOTE], right[_VOTE] = vote.label, max(vote.score, chance)
    return 1.0 - label_posterior(votes, right, question.options)[in_force]
