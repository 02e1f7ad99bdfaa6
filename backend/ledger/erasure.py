"""A whole project erased: everything that the ledger holds of it, but the money that it has cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, and_, delete, func, or_, select, union

from backend.errors import LedgerError
from backend.ledger import deletions
from backend.ledger.batches import OPEN
from backend.ledger.database import tables

_MONEY = frozenset({tables.calls, tables.call_shares, tables.accounts})
"""What is kept: numbers, which the accounts of the days and of all projects are the sums of."""

_OF_PROJECTS = tuple(
    table
    for table in tables.metadata.sorted_tables
    if "project" in table.c and table not in _MONEY | {tables.withdrawals}
)

_TOMBSTONES = (tables.deleted_tasks, tables.blind_tasks)
"""What may name tasks of which nothing else is left."""


@dataclass(frozen=True, slots=True)
class Held:
    """How much the ledger holds of a project."""

    tasks: Sequence[int]
    rounds: int
    answers: int
    annotations: int


@dataclass(frozen=True, slots=True)
class Erasure:
    """The erasure of one project. Callers first erase its tasks, some in each transaction, then the rest."""

    connection: Connection
    project: str

    def held(self) -> Held:
        """Return what there is to erase."""
        rounds, answers, links = tables.rounds.c, tables.answers.c, tables.answer_tasks.c
        annotations = tables.human_annotations.c
        linked = select(links.key).where(links.project == self.project)
        return Held(
            tasks=self._tasks(),
            rounds=self._count(rounds.project == self.project),
            answers=self._count(or_(answers.project == self.project, answers.key.in_(linked))),
            annotations=self._count(and_(annotations.project == self.project, ~annotations.deleted)),
        )

    def require_no_batch(self) -> None:
        """Require that no provider works on a batch of the project: its price is not known yet.

        Raises:
            LedgerError: there is one.
        """
        jobs = tables.batch_jobs.c
        if self._count(and_(jobs.project == self.project, jobs.state.in_(OPEN))):
            raise LedgerError(
                "a batch of the project is under way",
                where=self.project,
                fix="wait for its end, or cancel it with `camvo jobs --cancel`",
            )

    def erase_tasks(self, tasks: Sequence[int]) -> None:
        """Erase some tasks; an answer that a task of another project uses stays with that."""
        deletions.forget_deleted(self.connection, self.project, tasks)

    def erase_rest(self) -> None:
        """Erase what is not about single tasks, and the project itself.

        That the whole project was withdrawn stays known, since later projects take back what it taught them.
        """
        for table in _OF_PROJECTS:
            self.connection.execute(delete(table).where(table.c.project == self.project))
        of = tables.withdrawals.c
        partial = or_(of.task.is_not(None), of.annotator.is_not(None))
        self.connection.execute(delete(tables.withdrawals).where(of.project == self.project, partial))
        self.connection.execute(delete(tables.projects).where(tables.projects.c.key == self.project))

    def _tasks(self) -> list[int]:
        columns = [table.c for table in _OF_PROJECTS if "task" in table.c and table not in _TOMBSTONES]
        of_tables = [select(c.task).where(c.project == self.project, c.task.is_not(None)) for c in columns]
        return sorted(self.connection.scalars(union(*of_tables)))

    def _count(self, condition: ColumnElement[bool]) -> int:
        return self.connection.scalars(select(func.count()).where(condition)).one()
