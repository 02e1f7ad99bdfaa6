"""Failed tasks: how many, why, and what to do about them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from backend.errors import (
    BudgetExhaustedError,
    EmptyTextError,
    ImageUnavailableError,
    MissingFieldError,
    NoUsableAnswerError,
    NoVoteError,
)
from backend.ledger import failed_tasks
from backend.server.status.parts.commands import Commands
from backend.server.status.report import FailedTasksReport
from backend.server.status.run_progress import whole_number

PAGE = 1000
"""The most tasks in one answer of ``GET /failed``."""

_FINAL = {NoUsableAnswerError.code}
"""Reasons that do not pass: asking again calls no model."""

_CURES = {
    NoVoteError.code: "look at the failures of the models below and mend their cause",
    BudgetExhaustedError.code: "raise budget in camvo.yaml, or wait for the next UTC day",
    MissingFieldError.code: "import the key that the label config reads, or set camvo_fields",
    EmptyTextError.code: "import their texts",
    ImageUnavailableError.code: "make the images available to a model (docs/tags.md)",
}


def failed_task_reports(
    connection: Connection, project: str, commands: Commands
) -> tuple[FailedTasksReport, ...]:
    """The failed tasks of a project by reason, the most frequent first.

    Args:
        connection: a read transaction.
        project: the project's key.
        commands: the commands that ask about them again.
    """
    return tuple(
        FailedTasksReport(code, tasks, final=code in _FINAL, fix=_fix(code, commands))
        for code, tasks in failed_tasks.count_by_code(connection, project).items()
    )


def _fix(code: str, commands: Commands) -> str:
    if code in _FINAL:
        return (
            "label them by hand, give the labels hints, or name other models; "
            f"{commands.again} makes one more attempt"
        )
    return f"{_CURES.get(code, 'look the code up in docs/errors.md')}; then run {commands.failed}"


def failed_task_list(
    connection: Connection, projects: list[str], first: str | None, last: str | None
) -> dict[str, Any]:
    """The body of ``GET /failed``: the failed tasks in a range of numbers, and where the next page begins.

    Args:
        connection: a read transaction.
        projects: the projects' keys.
        first: the lowest number, as sent; ``None`` for the beginning.
        last: the highest number, as sent; ``None`` for the end.

    Raises:
        BadBodyError: a number is none.
    """
    lowest, highest = whole_number("first", first), whole_number("last", last)
    listed = failed_tasks.list_between(connection, projects, lowest or 0, highest, limit=PAGE + 1)
    tasks = [
        {"task": task.task, "code": task.code, "failed_at": task.failed_at, "final": task.code in _FINAL}
        for task in listed[:PAGE]
    ]
    return {"tasks": tasks, "next": listed[PAGE].task if len(listed) > PAGE else None}
