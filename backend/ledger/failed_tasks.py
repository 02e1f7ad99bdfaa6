"""Failed tasks: those that ended without a prediction, with the latest reason, until they get one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, delete, func, select

from backend.ledger.database import tables
from backend.ledger.database.number_sets import among, found_among
from backend.ledger.database.upsert import insert_or_replace

_table = tables.failed_tasks
_OF_TASK = (_table.c.project == bindparam("of"), _table.c.task == bindparam("number"))
_FIND = select(_table.c.task).where(
    _table.c.project == bindparam("of"), _table.c.task.in_(bindparam("numbers", expanding=True))
)
_FORGET = delete(_table).where(*_OF_TASK)


@dataclass(frozen=True, slots=True)
class FailedTask:
    """One task without a prediction.

    Attributes:
        task: the task's number.
        code: the code of the latest :class:`backend.errors.TaskError`.
        failed_at: when it was raised, unix seconds.
    """

    task: int
    code: str
    failed_at: float


def record(connection: Connection, project: str, task: int, code: str, now: float) -> None:
    """Record that a task failed; an earlier reason is replaced."""
    row = {"project": project, "task": task, "code": code, "failed_at": now}
    connection.execute(insert_or_replace(connection.dialect, _table), row)


def failed_among(connection: Connection, tasks: Iterable[tuple[str, int]]) -> set[tuple[str, int]]:
    """Return those of the tasks, projects and numbers, whose latest run failed; at most some hundred."""
    return found_among(connection, _FIND, tasks)


def forget_task(connection: Connection, project: str, task: int) -> None:
    """Forget that a task failed: it got a prediction."""
    connection.execute(_FORGET, {"of": project, "number": task})


def forget_tasks(connection: Connection, project: str, tasks: Sequence[int]) -> None:
    """Forget that tasks failed, because they were deleted."""
    of_tasks = among(connection.dialect, _table.c.task, tasks)
    connection.execute(delete(_table).where(_table.c.project == project, of_tasks))


def codes_of(connection: Connection, project: str, tasks: Sequence[int]) -> dict[int, str]:
    """Return the failed ones of these tasks, each with the code of the latest reason."""
    query = select(_table.c.task, _table.c.code).where(
        _table.c.project == project, among(connection.dialect, _table.c.task, tasks)
    )
    return {row.task: row.code for row in connection.execute(query)}


def count_by_code(connection: Connection, project: str) -> dict[str, int]:
    """Return code → number of failed tasks, the most frequent first."""
    number = func.count()
    query = (
        select(_table.c.code, number.label("tasks"))
        .where(_table.c.project == project)
        .group_by(_table.c.code)
        .order_by(number.desc(), _table.c.code)
    )
    return {row.code: row.tasks for row in connection.execute(query)}


def list_between(
    connection: Connection, projects: Collection[str], first: int, last: int | None, *, limit: int
) -> list[FailedTask]:
    """Return the failed tasks whose numbers are in a range, in their order.

    Args:
        connection: a read transaction.
        projects: the projects' keys.
        first: the lowest number.
        last: the highest number; ``None`` for no end.
        limit: the most tasks to return.
    """
    query = (
        select(_table.c.task, _table.c.code, _table.c.failed_at)
        .where(_table.c.project.in_(projects), _table.c.task >= first)
        .order_by(_table.c.task)
        .limit(limit)
    )
    if last is not None:
        query = query.where(_table.c.task <= last)
    return [FailedTask(**row._mapping) for row in connection.execute(query)]
