"""The models' answers to all tasks, and the answers to blind tasks: the shares of labels come from them.

An answer is the one of a task's first round. Later countings change it for some tasks and not for others, as
those that people have annotated, so only first answers are alike on blind tasks and on all others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from backend.ledger.database import tables
from backend.ledger.database.number_sets import among
from backend.ledger.reports.label_sums import of_question

_columns = tables.rounds.c


def count_answers(
    connection: Connection, project: str, control: str, epoch: str, through: int
) -> Counter[str]:
    """Count the models' answers to a question's tasks in an epoch. Reads every round of the question.

    Args:
        connection: a read transaction.
        project: the project's key.
        control: the name of the control tag.
        epoch: the epoch.
        through: the last round to count.
    """
    first = (
        select(func.min(_columns.id))
        .where(of_question(project, control, epoch), _columns.id <= through)
        .group_by(_columns.task)
    )
    query = (
        select(_columns.label, func.count().label("tasks"))
        .where(_columns.id.in_(first.scalar_subquery()))
        .group_by(_columns.label)
    )
    return Counter({row.label: row.tasks for row in connection.execute(query)})


@dataclass(frozen=True, slots=True)
class BlindAnswer:
    """The answers to a blind task: the models', and the people's; ``None`` if it has none that counts."""

    label: str
    human: str | None


def blind_answers(connection: Connection, round_ids: Sequence[int]) -> list[BlindAnswer]:
    """Return the answers of blind rounds; those of deleted tasks are absent."""
    query = select(_columns.label, _columns.human).where(
        among(connection.dialect, _columns.id, round_ids), _columns.audit
    )
    return [BlindAnswer(row.label, row.human) for row in connection.execute(query.order_by(_columns.id))]
