"""Deleted tasks: only their numbers, so that work under way and late webhooks bring nothing of them back."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, select

from backend.ledger import answers, example_texts, human_annotations, rounds, votes
from backend.ledger.database import tables
from backend.ledger.database.upsert import insert_new

_table = tables.deleted_tasks
_FIND = select(_table.c.task).where(_table.c.project == bindparam("of"), _table.c.task == bindparam("number"))


def delete(connection: Connection, project: str, task: int, now: float) -> None:
    """Delete a task's rounds, texts, human labels and the answers that only it uses; remember its number.

    Take its human labels out of the rewards before: afterwards the rounds are gone.
    """
    human_annotations.forget_task(connection, project, task)
    votes.forget_task(connection, project, task)
    rounds.forget_task(connection, project, task)
    answers.forget_task(connection, project, task)
    example_texts.forget_task(connection, project, task)
    row = {"project": project, "task": task, "deleted_at": now}
    connection.execute(insert_new(connection.dialect, _table), row)


def contain(connection: Connection, project: str, task: int) -> bool:
    """Whether the task was deleted; Label Studio gives no number twice."""
    return connection.execute(_FIND, {"of": project, "number": task}).first() is not None
