"""What is known of each annotator, by their id in Label Studio; nobody is named before 20 labels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median
from typing import Final

from sqlalchemy import Connection

from backend.learning.annotators.peoples_answers import AnsweredQuestion, answered_questions
from backend.ledger.human_annotations import Annotation
from backend.server.status.evidence import Share
from camvo.annotators.reliability import AnnotatorReliability, fit_reliabilities
from camvo.votes import consensus

LEAST_LABELS: Final = 20
"""Whoever has fewer labels is counted, and neither named nor judged."""


@dataclass(frozen=True, slots=True)
class AnnotatorReport:
    """One annotator in one project, or all that have few labels together.

    Attributes:
        id: their id in Label Studio; ``None`` for those with fewer than 20 labels.
        people: how many people the row is about.
        labels: how many labels of theirs count, over all questions.
        tasks: on how many tasks.
        minutes: the time that they took, where Label Studio told it; ``None`` if it never did.
        seconds_per_task: its median, in seconds.
        agreement: how often the others on the same task gave the same label; each label counts as the share
            of the others who did. ``None`` for those with few labels, as all that follows.
        truth: how often the label was the ground truth of somebody else.
        unchanged: how often a prediction that was shown was taken over.
        anchored: of those, where colleagues labelled the task without seeing the prediction: how often these
            agreed on another label.
        reliability: question → how often they are right, learnt from everybody's labels.
    """

    id: int | None
    people: int
    labels: int
    tasks: int
    minutes: float | None
    seconds_per_task: float | None
    agreement: Share | None = None
    truth: Share | None = None
    unchanged: Share | None = None
    anchored: Share | None = None
    reliability: dict[str, AnnotatorReliability] = field(default_factory=dict)


def annotator_reports(connection: Connection, project: str) -> tuple[AnnotatorReport, ...]:
    """Report on every annotator of a project, by id; those with few labels come last, in one row."""
    questions = answered_questions(connection, project)
    of_person: dict[int, list[_Label]] = defaultdict(list)
    for question in questions:
        for label in _labels(question):
            if label.annotation.completed_by is not None:
                of_person[label.annotation.completed_by].append(label)
    reliabilities = {
        question.control: fit_reliabilities(
            [question.peoples_task(task) for task in question.annotations], len(question.options)
        ).people
        for question in questions
        if question.is_labels
    }
    named = {person: labels for person, labels in sorted(of_person.items()) if len(labels) >= LEAST_LABELS}
    rows = []
    for person, labels in named.items():
        own = {control: fits[str(person)] for control, fits in reliabilities.items() if str(person) in fits}
        rows.append(_judged(person, labels, own))
    few = [labels for person, labels in of_person.items() if person not in named]
    if few:
        rows.append(_counted(None, len(few), [label for labels in few for label in labels]))
    return tuple(rows)


@dataclass(frozen=True, slots=True)
class _Label:
    """One label of one person, and what there is to compare it with.

    ``taken`` is whether a shown prediction was taken over, ``None`` if none was shown; ``misled`` whether
    blind colleagues agreed on another label then.
    """

    annotation: Annotation
    agreement: float | None
    truth: float | None
    taken: bool | None
    misled: bool | None


def _labels(question: AnsweredQuestion) -> Iterator[_Label]:
    reward, control = question.aggregation.reward, question.control
    for task, said in question.annotations.items():
        truth, round_ = question.truth(task), question.rounds.get(task)
        for annotation in said:
            label = annotation.labels[control]
            others = [other for other in said if other.completed_by != annotation.completed_by]
            taken = None
            if annotation.prediction_shown and round_ is not None:
                taken = reward(label, round_.label) == 1.0
            blind = consensus.agreed_answer(
                question.aggregation,
                [other.labels[control] for other in others if not other.prediction_shown],
                question.options,
            )
            judged = truth is not None and not annotation.ground_truth
            yield _Label(
                annotation,
                fmean(reward(label, other.labels[control]) for other in others) if others else None,
                reward(label, truth) if judged and truth is not None else None,
                taken,
                reward(blind, label) < 1.0 if taken and blind is not None else None,
            )


def _judged(
    person: int, labels: Sequence[_Label], reliability: dict[str, AnnotatorReliability]
) -> AnnotatorReport:
    return replace(
        _counted(person, 1, labels),
        agreement=_share([label.agreement for label in labels]),
        truth=_share([label.truth for label in labels]),
        unchanged=_share([label.taken for label in labels]),
        anchored=_share([label.misled for label in labels]),
        reliability=reliability,
    )


def _counted(person: int | None, people: int, labels: Sequence[_Label]) -> AnnotatorReport:
    annotations = {label.annotation.annotation_id: label.annotation for label in labels}.values()
    seconds = [annotation.lead_time for annotation in annotations if annotation.lead_time is not None]
    return AnnotatorReport(
        person,
        people,
        len(labels),
        len({annotation.task for annotation in annotations}),
        sum(seconds) / 60.0 if seconds else None,
        median(seconds) if seconds else None,
    )


def _share(values: Sequence[float | None]) -> Share:
    return Share.of((1, float(value)) for value in values if value is not None)
