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
from backend.server.status.report import FailedTasksReport
from backend.server.status.run_progress import whole_number

PAGE = 1000
"""The most tasks in one answer of ``GET /failed``."""

_FINAL = {NoUsableAnswerError.code}
"""Reasons that do not pass: asking again calls no model."""

_THEN = "then run camvo predict --failed"
_FIXES = {
    NoUsableAnswerError.code: "label them by hand, give the labels hints, or name other models; "
    "camvo predict --again makes one more attempt",
    NoVoteError.code: f"look at the failures of the models below and mend their cause; {_THEN}",
    BudgetExhaustedError.code: f"raise budget in camvo.yaml, or wait for the next UTC day; {_THEN}",
    MissingFieldError.code: f"import the key that the label config reads, or set camvo_fields; {_THEN}",
    EmptyTextError.code: f"import their texts; {_THEN}",
    ImageUnavailableError.code: f"make the images available to a model (docs/tags.md); {_THEN}",
}


def failed_task_reports(connection: Connection, project: str) -> tuple[FailedTasksReport, ...]:
    """The failed tasks of a project by reason, the most frequent first."""
    return tuple(
        FailedTasksReport(
            code=code,
            tasks=tasks,
            final=code in _FINAL,
            fix=_FIXES.get(code, f"look the code up in docs/errors.md; {_THEN}"),
        )
        for code, tasks in failed_tasks.count_by_code(connection, project).items()
    )


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
