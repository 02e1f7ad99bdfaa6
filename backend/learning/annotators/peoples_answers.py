"""What people answered in a project, question by question, beside the votes of the models."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from backend.learning.human_labels import aggregation_of, answering, person
from backend.ledger import human_annotations, open_rounds, reports
from backend.ledger.annotators import judged_rounds
from backend.ledger.annotators.judged_rounds import JudgedRound
from backend.ledger.human_annotations import Annotation
from camvo.annotators.coins import PeoplesTask
from camvo.votes import consensus
from camvo.votes.aggregation import Aggregation
from camvo.votes.labels import LABEL_VOTE


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """One question in its latest epoch, with the people's answers.

    Attributes:
        control: the name of its control tag.
        aggregation: how its votes are counted.
        options: its labels or items.
        annotations: task → the annotations that answer the question and count, by id.
        rounds: task → its latest round; tasks without a round are absent.
    """

    control: str
    aggregation: Aggregation
    options: Sequence[str]
    annotations: Mapping[int, Sequence[Annotation]]
    rounds: Mapping[int, JudgedRound]

    @property
    def is_labels(self) -> bool:
        """Whether people choose one of several labels."""
        return self.aggregation == LABEL_VOTE and len(self.options) > 1

    def truth(self, task: int) -> str | None:
        """The ground truth on a task; ``None`` if no annotation is marked, or the marked ones differ."""
        truths = [
            annotation.labels[self.control]
            for annotation in self.annotations[task]
            if annotation.ground_truth
        ]
        return consensus.agreed_answer(self.aggregation, truths, self.options)

    def peoples_task(self, task: int) -> PeoplesTask:
        """A task as the reliabilities are learnt from it.

        The author of a ground truth is not judged by it. Models are witnesses only if nobody was shown the
        prediction.
        """
        annotations, round_ = self.annotations[task], self.rounds.get(task)
        shown = any(annotation.prediction_shown for annotation in annotations)
        cast = {} if shown or round_ is None else round_.votes
        return PeoplesTask(
            {
                person(annotation): annotation.labels[self.control]
                for annotation in annotations
                if not annotation.ground_truth and annotation.completed_by is not None
            },
            {arm: vote for arm, vote in cast.items() if vote is not None},
            self.truth(task),
        )


def answered_questions(connection: Connection, project: str) -> list[AnsweredQuestion]:
    """Return the project's questions that models voted on, each with all answers of people to it."""
    of_task = by_task(human_annotations.of_project(connection, project))
    questions = []
    for control, epoch in sorted(open_rounds.latest_epochs(connection, project).items()):
        plan = reports.latest_plan(connection, project, control, epoch)
        if plan is None:
            continue
        aggregation, options = aggregation_of(plan), plan["labels"]
        answers = {
            task: counted
            for task, annotations in of_task.items()
            if (counted := answering(annotations, control, aggregation, options))
        }
        rounds = judged_rounds.latest_judged(connection, project, control, epoch)
        questions.append(AnsweredQuestion(control, aggregation, options, answers, rounds))
    return questions


def by_task(annotations: Iterable[Annotation]) -> dict[int, list[Annotation]]:
    """Group annotations by their task, in order."""
    of_task: dict[int, list[Annotation]] = defaultdict(list)
    for annotation in annotations:
        if annotation.task is not None:
            of_task[annotation.task].append(annotation)
    return dict(sorted(of_task.items()))
