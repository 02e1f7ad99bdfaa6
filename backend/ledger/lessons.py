"""What the votes of each project taught about its models: skills for later projects, no texts or labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, select

from backend.ledger.database import tables
from backend.ledger.database.statements import insert_or_replace
from camvo.state.earlier import Earlier, Lesson

_lessons, _withdrawals = tables.lessons, tables.withdrawals.c

_MOST: Final = 20
"""The most projects that a new one starts from: the latest ones."""


@dataclass(frozen=True, slots=True)
class ProjectLessons:
    """The lessons of all projects.

    A kind of question is a control tag and a class of numbers of labels. A lesson is one project's on one
    question in one epoch.
    """

    connection: Connection

    def store(self, control: str, epoch: str, kind: str, lesson: Lesson, now: float) -> None:
        """Store what a question's votes teach, in place of what they taught before."""
        row = {
            "project": lesson.project,
            "control": control,
            "epoch": epoch,
            "kind": kind,
            "lesson": lesson.to_list(),
            "updated_at": now,
        }
        self.connection.execute(insert_or_replace(self.connection.dialect, _lessons), row)

    def of_kind(self, kind: str, project: str) -> Earlier:
        """Return the lessons of other projects on such questions: of each project the one of most rounds."""
        query = select(_lessons.c.lesson).where(_lessons.c.kind == kind, _lessons.c.project != project)
        by_project: dict[str, Lesson] = {}
        for stored in self.connection.scalars(query.order_by(_lessons.c.updated_at.desc())):
            lesson = Lesson.from_list(stored)
            known = by_project.get(lesson.project)
            if known is None or lesson.rounds > known.rounds:
                by_project[lesson.project] = lesson
        latest = tuple(by_project.values())
        return Earlier(latest).without(self.forgotten()).latest(_MOST)

    def forgotten(self) -> set[str]:
        """Return the projects of which ``camvo ledger forget --project`` has withdrawn everything."""
        query = select(_withdrawals.project, _withdrawals.withdrawn).where(
            _withdrawals.project.is_not(None),
            _withdrawals.task.is_(None),
            _withdrawals.annotator.is_(None),
            _withdrawals.since.is_(None),
        )
        last = {
            row.project: row.withdrawn for row in self.connection.execute(query.order_by(_withdrawals.id))
        }
        return {project for project, withdrawn in last.items() if withdrawn}
