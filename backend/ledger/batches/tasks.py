"""Tasks that wait for batches: what was planned and drawn before any line was sent, and who was asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import Connection, bindparam, case, delete, func, select

from backend.ledger.database import tables
from backend.ledger.database.number_sets import among, by_project
from backend.ledger.database.upsert import insert_or_replace

_table = tables.batch_tasks
_OF_TASK = (_table.c.project == bindparam("of"), _table.c.task == bindparam("number"))
_FIND = select(_table).where(*_OF_TASK)
_FORGET = delete(_table).where(
    _table.c.project == bindparam("of"), _table.c.task.in_(bindparam("numbers", expanding=True))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTask:
    """One waiting task.

    Attributes:
        project: the project's key.
        task: the task's number.
        questions: a hash of what is asked; another one makes the rest of the row obsolete.
        exploration: the outcome of the exploration draw; ``None`` for a policy that draws nothing.
        drawn: the draw's probabilities, and the arms of the first stage.
        plan: question → the plan as it was before the first line was sent.
        asked: the stages so far: for each, model → the key of its answer.
        created_at: unix seconds.
    """

    project: str
    task: int
    questions: str
    exploration: str | None
    drawn: Mapping[str, Any]
    plan: Mapping[str, Any]
    asked: Sequence[Mapping[str, str]]
    created_at: float


def find(connection: Connection, project: str, task: int) -> BatchTask | None:
    """Return what a task waits for; ``None`` if it waits for nothing."""
    row = connection.execute(_FIND, {"of": project, "number": task}).one_or_none()
    return None if row is None else BatchTask(**row._mapping)


def store(connection: Connection, task: BatchTask) -> None:
    """Store a waiting task; an earlier row of the task is replaced."""
    row = {field.name: getattr(task, field.name) for field in fields(BatchTask)}
    connection.execute(insert_or_replace(connection.dialect, _table), row)


def forget(connection: Connection, tasks: Iterable[tuple[str, int]]) -> None:
    """The tasks wait no more; each is a project and a number, and they are at most some hundred."""
    for project, numbers in by_project(tasks):
        connection.execute(_FORGET, {"of": project, "numbers": numbers})


def count(connection: Connection, project: str) -> tuple[int, int]:
    """Return how many tasks of a project wait, and how many of them ask all models."""
    everyone = case((_table.c.exploration == "everyone", 1), else_=0)
    query = select(func.count(), func.sum(everyone)).where(_table.c.project == project)
    waiting, exploring = connection.execute(query).one()
    return int(waiting), int(exploring or 0)


def forget_tasks(connection: Connection, project: str, tasks: Sequence[int]) -> None:
    """Delete what deleted tasks waited for."""
    chosen = among(connection.dialect, _table.c.task, tasks)
    connection.execute(delete(_table).where(_table.c.project == project, chosen))
