"""Withdrawn labels: whose human labels no longer teach, as ``camvo ledger forget`` was told.

The rows are kept in the order of the commands, and the last row that covers an annotation decides. An
annotation that arrives later, for example because its webhook was lost, is therefore treated like those that
were there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cache

from sqlalchemy import Connection, Select, bindparam, insert, or_, select

from backend.ledger.database import tables

_table = tables.withdrawals


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """One command: the annotations that it covers, and whether they are withdrawn or come back.

    Attributes:
        project: the project's key; ``None`` for every project.
        task: the task's number; ``None`` for every task.
        annotator: the user's id; ``None`` for everybody.
        since: unix seconds of the earliest change of an annotation, by Label Studio's clock; ``None`` for no
            bound.
        until: unix seconds of the latest change; ``None`` for no bound.
        withdrawn: true to withdraw, false to bring back.
        created_at: unix seconds of the command.
    """

    project: str | None = None
    task: int | None = None
    annotator: int | None = None
    since: float | None = None
    until: float | None = None
    withdrawn: bool = True
    created_at: float = 0.0

    def covers(self, project: str, task: int | None, annotator: int | None, updated_at: str) -> bool:
        """Whether the command covers an annotation.

        Args:
            project: the project's key.
            task: the task's number.
            annotator: the user's id.
            updated_at: when the annotation was last changed, Label Studio's ISO time.
        """
        changed = annotation_time(updated_at).timestamp()
        return (
            self.project in {None, project}
            and self.task in {None, task}
            and self.annotator in {None, annotator}
            and (self.since is None or changed >= self.since)
            and (self.until is None or changed <= self.until)
        )


def append(connection: Connection, withdrawal: Withdrawal) -> None:
    """Store a command, which from now on decides about the annotations that it covers."""
    connection.execute(insert(_table), asdict(withdrawal))


def of_project(connection: Connection, project: str) -> list[Withdrawal]:
    """Return the commands that may cover annotations of a project, the earliest first."""
    rows = connection.execute(_of_project(), {"of": project})
    return [Withdrawal(**row._mapping) for row in rows]


@cache
def _of_project() -> Select[tuple[object, ...]]:
    columns = [column for column in _table.c if column.name != "id"]
    of_project = or_(_table.c.project.is_(None), _table.c.project == bindparam("of"))
    return select(*columns).where(of_project).order_by(_table.c.id)


def is_withdrawn(
    withdrawals: Sequence[Withdrawal], project: str, task: int | None, annotator: int | None, updated_at: str
) -> bool:
    """Whether an annotation is withdrawn: what the last command that covers it says."""
    for withdrawal in reversed(withdrawals):
        if withdrawal.covers(project, task, annotator, updated_at):
            return withdrawal.withdrawn
    return False


def up_to(withdrawal: Withdrawal, updates: Sequence[str]) -> Withdrawal:
    """The command, bounded by its own time, or by the latest of these changes if that is later.

    Label Studio's clock may be ahead of the clock of the command.

    Args:
        withdrawal: the command.
        updates: when the annotations that are to be covered were last changed, Label Studio's ISO times.
    """
    times = [annotation_time(updated_at).timestamp() for updated_at in updates]
    return replace(withdrawal, until=max([withdrawal.created_at, *times]))


def annotation_time(text: str) -> datetime:
    """Parse Label Studio's ISO time; a time that cannot be parsed counts as the oldest.

    Label Studio omits a fraction of zero, so its texts do not sort as times do.
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return time if time.tzinfo else time.replace(tzinfo=UTC)
