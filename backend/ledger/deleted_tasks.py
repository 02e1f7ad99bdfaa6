"""Deleted tasks: only their numbers, so that work under way and late webhooks bring nothing of them back."""

from __future__ import annotations

from sqlalchemy import Connection, select

from backend.ledger import answers, human_annotations, rounds, tables, votes
from backend.ledger.upsert import insert

_table = tables.deleted_tasks


def delete(connection: Connection, project: str, task: int, now: float) -> None:
    """Delete a task's rounds, the answers that only it uses, and what humans said of it; remember its number.

    Take its human labels out of the rewards before: afterwards the rounds are gone.
    """
    human_annotations.forget_task(connection, project, task)
    votes.forget_task(connection, project, task)
    rounds.forget_task(connection, project, task)
    answers.forget_task(connection, project, task)
    row = {"project": project, "task": task, "deleted_at": now}
    connection.execute(insert(connection, _table).values(row).on_conflict_do_nothing())


def contain(connection: Connection, project: str, task: int) -> bool:
    """Whether the task was deleted; Label Studio gives no number twice."""
    query = select(_table.c.task).where(_table.c.project == project, _table.c.task == task)
    return connection.execute(query).first() is not None
