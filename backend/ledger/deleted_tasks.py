"""Deleted tasks: their numbers only, so that running work and late webhooks do not restore any data."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, select

from backend.ledger import answers, example_texts, failed_tasks, human_annotations, rounds, votes
from backend.ledger.database import tables
from backend.ledger.database.upsert import insert_new

_table = tables.deleted_tasks
_FIND = select(_table.c.task).where(_table.c.project == bindparam("of"), _table.c.task == bindparam("number"))


def delete_task(connection: Connection, project: str, task: int, now: float) -> None:
    """Delete a task's rounds, votes, texts, human labels and unshared answers; remember its number.

    Callers must first take the task's human labels out of the rewards: that needs the rounds.
    """
    human_annotations.forget_task(connection, project, task)
    votes.forget_task(connection, project, task)
    rounds.forget_task(connection, project, task)
    answers.forget_task(connection, project, task)
    example_texts.forget_task(connection, project, task)
    failed_tasks.forget_task(connection, project, task)
    row = {"project": project, "task": task, "deleted_at": now}
    connection.execute(insert_new(connection.dialect, _table), row)


def is_deleted(connection: Connection, project: str, task: int) -> bool:
    """Whether the task was deleted. Label Studio never reuses a task's number."""
    return connection.execute(_FIND, {"of": project, "number": task}).first() is not None
