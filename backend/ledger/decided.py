"""What was decided about a question's tasks, without the tasks' content: label, score and votes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, case, func, select

from backend.ledger.database import tables
from backend.ledger.recounts import latest

_rounds = tables.rounds.c
_PORTION = 500

_MOST_AGAIN = 0.9
"""The share of the tasks that were asked about again whose scores are compared with those of the others."""


@dataclass(frozen=True, slots=True)
class DecidedTask:
    """A task with a round on a question.

    Attributes:
        round_id: the round.
        place: the task, and what models were shown of it.
        label: its label, by the latest counting.
        score: the probability that it is right, by the latest counting.
        votes: arm → vote, ``None`` where the model gave none.
        human: what people say; ``None`` while they say nothing.
        audit: whether it was kept blind.
        carried: whether its round was made of one with other labels.
    """

    round_id: int
    place: tuple[int, str]
    label: str
    score: float
    votes: Mapping[str, str | None]
    human: str | None
    audit: bool = False
    carried: bool = False

    @property
    def deciding(self) -> str | None:
        """What people say, if it may decide what becomes of the task; ``None`` for a blind one.

        A blind task stands for those that nobody has labelled, so it must fare as they do: else errors that
        people have found would leave the blind tasks, and stay among the others.
        """
        return None if self.audit else self.human


def decided_tasks(connection: Connection, project: str, control: str, epoch: str) -> Iterator[DecidedTask]:
    """Read the rounds of a question in one epoch, by id."""
    decided = (_rounds.id, _rounds.task, _rounds.question, _rounds.label, _rounds.score, _rounds.votes)
    columns = (*decided, _rounds.human, _rounds.audit, _rounds.carried_from)
    of = (_rounds.project == project, _rounds.control == control, _rounds.epoch == epoch)
    query, last = select(*columns).where(*of).order_by(_rounds.id).limit(_PORTION), 0
    while rows := connection.execute(query.where(_rounds.id > last)).all():
        last = rows[-1].id
        counted = latest(connection, [row.id for row in rows])
        for row in rows:
            now = counted.get(row.id, row)
            carried = row.carried_from is not None
            votes = (row.votes, row.human, row.audit, carried)
            yield DecidedTask(row.id, (row.task, row.question), now.label, now.score, *votes)


class EpochSummary(NamedTuple):
    """The labels of a question in one epoch.

    Attributes:
        labels: how many there are.
        scores: the sum of their scores.
        judged: how many people have judged.
        right: the sum of what these say, in [0, 1] each.
    """

    labels: int
    scores: float
    judged: int
    right: float


def epoch_summary(connection: Connection, project: str, control: str, epoch: str) -> EpochSummary:
    """Count the labels of a question in one epoch, and how right they are."""
    of = (_rounds.project == project, _rounds.control == control, _rounds.epoch == epoch)
    sums = (func.count(), func.sum(_rounds.score), func.count(_rounds.confirmed), func.sum(_rounds.confirmed))
    labels, scores, judged, right = connection.execute(select(*sums).where(*of)).one()
    return EpochSummary(labels, scores or 0.0, judged, right or 0.0)


def decided_places(connection: Connection, project: str, control: str, epoch: str) -> set[tuple[int, str]]:
    """Return the tasks with a round on a question in one epoch, each with what models were shown of it."""
    of = (_rounds.project == project, _rounds.control == control, _rounds.epoch == epoch)
    return {
        (row.task, row.question)
        for row in connection.execute(select(_rounds.task, _rounds.question).where(*of))
    }


class TaskCosts(NamedTuple):
    """What the calls about a task have cost on average, in $, where models were asked; 0 without one.

    Attributes:
        usd: what they cost.
        everyone_usd: what asking every model would have cost.
    """

    usd: float
    everyone_usd: float


def costs_of_a_task(connection: Connection, project: str, control: str) -> TaskCosts:
    """Return what the calls about a task of a question have cost."""
    paid = func.avg(_rounds.cost_usd + _rounds.reused_usd)  # new tasks have no answers that could be reused
    costs = select(paid, func.avg(_rounds.full_cost_usd)).where(
        _rounds.project == project, _rounds.control == control, _rounds.carried_from.is_(None)
    )
    usd, everyone = connection.execute(costs).one()
    return TaskCosts(float(usd or 0.0), float(everyone or 0.0))


@dataclass(frozen=True, slots=True)
class _AskedByScore:
    """Which tasks of an epoch models were asked about in another one, too.

    Attributes:
        again: how many.
        left: how many others the first epoch has.
        left_above: how many of those have a higher score than nine in ten that were asked about again.
    """

    again: int
    left: int
    left_above: int

    @property
    def selected(self) -> bool:
        """Whether only tasks with low scores were asked about again; chance would hardly choose these."""
        return 2 * self.left_above > self.left


def asked_by_score(
    connection: Connection, project: str, control: str, before: str, after: str
) -> _AskedByScore:
    """Compare the scores of an epoch's tasks that models were asked about in a later one with the others."""
    first, second, both = _both(project, control, before, after)
    number = connection.scalars(select(func.count()).select_from(both)).one()
    # A few tasks that were asked about for other reasons do not hide that the others were selected.
    place = max(math.ceil(_MOST_AGAIN * number) - 1, 0)
    scores = select(first.score).select_from(both).order_by(first.score).offset(place).limit(1)
    high = connection.scalars(scores).first()
    of_first = (first.project == project, first.control == control, first.epoch == before)
    asked = select(second.id).where(
        second.project == first.project,
        second.control == first.control,
        second.task == first.task,
        second.question == first.question,
        second.epoch == after,
    )
    above = func.count(case((first.score > (high or 0.0), 1)))
    left = select(func.count(), above).where(*of_first, ~asked.exists())
    others, left_above = connection.execute(left).one()
    return _AskedByScore(number, others, left_above)


@dataclass(frozen=True, slots=True)
class JudgedTwice:
    """A task with a label in two epochs, and what people say of both, in [0, 1]."""

    task: int
    before: float
    after: float


def judged_twice(
    connection: Connection, project: str, control: str, before: str, after: str
) -> list[JudgedTwice]:
    """Return the tasks that models were asked about in both epochs, in the order in which they were judged.

    Left out are tasks whose annotators saw a prediction: they may lean on the label of the earlier epoch.
    """
    first, second, both = _both(project, control, before, after)
    people = tables.human_annotations.c
    judged = (
        select(people.task, func.max(people.received_at).label("at"))
        .where(people.project == project, ~people.deleted, people.task.is_not(None))
        .group_by(people.task)
        .having(func.count(case((people.prediction_shown, 1))) == 0)
        .subquery()
    )
    rows = connection.execute(
        select(first.task, first.confirmed.label("before"), second.confirmed.label("after"))
        .select_from(both.join(judged, judged.c.task == first.task))
        .where(first.confirmed.is_not(None), second.confirmed.is_not(None))
        .add_columns(judged.c.at, second.created_at)
    ).all()
    ordered = sorted(rows, key=lambda row: (max(row.at, row.created_at), row.task))
    return [JudgedTwice(row.task, row.before, row.after) for row in ordered]


def _both(project: str, control: str, before: str, after: str) -> tuple[Any, Any, Any]:
    """The rounds of two epochs in which models voted, beside one another: both rows, and the join."""
    first, second = tables.rounds.alias(), tables.rounds.alias()
    same = (
        first.c.project == project,
        first.c.control == control,
        first.c.epoch == before,
        second.c.project == project,
        second.c.control == control,
        second.c.epoch == after,
        second.c.task == first.c.task,
        second.c.question == first.c.question,
    )
    return first.c, second.c, first.join(second, and_(*same))
