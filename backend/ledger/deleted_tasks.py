"""Deleted tasks: their numbers only, so that running work and late webhooks do not restore any data.

A deletion is first marked, which is quick, and counts from then on. What the ledger holds of the tasks is
forgotten afterwards, and for many tasks in several transactions; a list says what is left to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, bindparam, delete, select

from backend.ledger import (
    blind_tasks,
    example_texts,
    failed_tasks,
    human_annotations,
    rounds,
    votes,
)
from backend.ledger.batches import lines as batch_lines
from backend.ledger.batches import tasks as batch_tasks
from backend.ledger.calls import answers, pack_checks
from backend.ledger.database import tables
from backend.ledger.database.number_sets import among, found_among, insert_each
from backend.ledger.predictions import accepted
from backend.ledger.recounts import checks, further_votes
from backend.ledger.recounts import rows as recounts

_table, _left = tables.deleted_tasks, tables.tasks_to_forget
_FIND = select(_table.c.task).where(
    _table.c.project == bindparam("of"), _table.c.task.in_(bindparam("numbers", expanding=True))
)
_NEXT = select(_left.c.project, _left.c.task).order_by(_left.c.project, _left.c.task).limit(bindparam("most"))


def mark(connection: Connection, project: str, tasks: Sequence[int], now: float) -> None:
    """Remember that tasks are deleted, and that their records are to be forgotten.

    Blind ones count as wrong from now on.
    """
    if not tasks:
        return
    dialect = connection.dialect
    connection.execute(insert_each(dialect, _table, "task", tasks, project=project, deleted_at=now))
    connection.execute(insert_each(dialect, _left, "task", tasks, project=project))
    blind_tasks.count_as_wrong(connection, project, tasks)


def left_to_forget(connection: Connection, most: int) -> tuple[str, list[int]] | None:
    """Return a project and at most so many of its deleted tasks whose records are still there."""
    rows = connection.execute(_NEXT, {"most": most}).all()
    if not rows:
        return None
    project: str = rows[0].project
    return project, [row.task for row in rows if row.project == project]


def forget(connection: Connection, project: str, tasks: Sequence[int]) -> None:
    """Delete marked tasks' rounds, recounts, votes, texts, human labels and unshared answers.

    Callers must first take the tasks' human labels out of the rewards, and their texts from the student: that
    needs the rounds.
    """
    human_annotations.forget_tasks(connection, project, tasks)
    votes.forget_tasks(connection, project, tasks)
    rounds.forget_tasks(connection, project, tasks)
    recounts.forget_tasks(connection, project, tasks)
    checks.forget_tasks(connection, project, tasks)
    further_votes.forget_tasks(connection, project, tasks)
    answers.forget_tasks(connection, project, tasks)
    pack_checks.forget_tasks(connection, project, tasks)
    example_texts.forget_tasks(connection, project, tasks)
    failed_tasks.forget_tasks(connection, project, tasks)
    accepted.forget_tasks(connection, project, tasks)
    batch_lines.forget_tasks(connection, project, tasks)
    batch_tasks.forget_tasks(connection, project, tasks)
    chosen = among(connection.dialect, _left.c.task, tasks)
    connection.execute(delete(_left).where(_left.c.project == project, chosen))


def is_deleted(connection: Connection, project: str, task: int) -> bool:
    """Whether the task was deleted. Label Studio never reuses a task's number."""
    return bool(deleted_among(connection, [(project, task)]))


def deleted_among(connection: Connection, tasks: Iterable[tuple[str, int]]) -> set[tuple[str, int]]:
    """Return those of the tasks that were deleted; each is a project and a number. At most some hundred."""
    return found_among(connection, _FIND, tasks)
