"""Questionable labels: those on which the vote and the people differ, the most certain vote first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from backend.ledger import reports
from backend.ledger.reports import JudgedRow

_SHOWN = 50
"""Labels that are listed at most for each question."""

_CERTAIN = 0.9
"""The score from which a vote against a single annotator is a reason to look again."""


@dataclass(frozen=True, slots=True)
class QuestionableLabel:
    """One label on which the vote and the people differ.

    Attributes:
        task: the task's number.
        vote: the voted label; ``None`` if answers may quote the task.
        human: the human label; ``None`` in the same case.
        score: the vote's score.
        annotators: how many people annotated the task.
        certain: whether a certain vote stands against a single annotator, who may be wrong.
    """

    task: int
    vote: str | None
    human: str | None
    score: float
    annotators: int
    certain: bool


@dataclass(frozen=True, slots=True)
class QuestionableReport:
    """The labels of one question on which the vote and the people differ, among its latest 2000 with both.

    Attributes:
        labels: their number.
        certain: how many of them are certain votes against a single annotator.
        listed: the first fifty: certain votes against a single annotator, then by score.
    """

    labels: int
    certain: int
    listed: tuple[QuestionableLabel, ...]


def questionable_report(
    connection: Connection, project: str, judged: Sequence[JudgedRow], *, closed: bool
) -> QuestionableReport:
    """List the questionable labels of one question.

    Args:
        connection: a read transaction.
        project: the project's key.
        judged: its labels with a human answer.
        closed: whether its answers are labels of the label config.
    """
    differing = [row for row in judged if row.confirmed < 0.5]
    people = reports.annotators(connection, project, [row.task for row in differing])
    listed = sorted((_label(row, people, closed=closed) for row in differing), key=_order)
    return QuestionableReport(
        labels=len(listed),
        certain=sum(label.certain for label in listed),
        listed=tuple(listed[:_SHOWN]),
    )


def _label(row: JudgedRow, people: Mapping[int, int], *, closed: bool) -> QuestionableLabel:
    annotators = people.get(row.task, 0)
    return QuestionableLabel(
        task=row.task,
        vote=row.label if closed else None,
        human=row.human if closed else None,
        score=row.score,
        annotators=annotators,
        certain=row.score >= _CERTAIN and annotators == 1,
    )


def _order(label: QuestionableLabel) -> tuple[bool, float, int]:
    return not label.certain, -label.score, label.task
