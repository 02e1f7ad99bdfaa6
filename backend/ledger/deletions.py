"""Deleted tasks and projects: of tasks the numbers only, so that late webhooks do not restore any data.

A deletion is first marked, which is quick, and counts from then on. What the ledger holds of the tasks is
forgotten afterwards, and for many tasks in several transactions; a list says what is left to do. Of a whole
project that is erased nothing stays but the money that it has cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    bindparam,
    delete,
    exists,
    func,
    or_,
    select,
    union,
    update,
)

from backend.errors import LedgerError
from backend.ledger import answers
from backend.ledger.batches import ENDED, OPEN, Lines
from backend.ledger.blind_tasks import BlindQueues
from backend.ledger.database import tables
from backend.ledger.database.statements import among, delete_tasks, insert_new
from backend.ledger.human_annotations import Annotations
from backend.ledger.learning_data import ExampleTexts
from backend.ledger.rounds import ProjectRounds

_table, _left = tables.deleted_tasks, tables.tasks_to_forget
_ABOUT_TASKS = (
    tables.recounts,
    tables.recount_checks,
    tables.further_votes,
    tables.pack_checks,
    tables.example_texts,
    tables.failed_tasks,
    tables.accepted,
    tables.batch_tasks,
    _left,
)
"""The tables of which the rows of forgotten tasks are simply deleted."""

_NEXT = select(_left.c.project, _left.c.task).order_by(_left.c.project, _left.c.task).limit(bindparam("most"))


def mark_deleted(connection: Connection, project: str, tasks: Sequence[int], now: float) -> None:
    """Remember that tasks are deleted, and that their records are to be forgotten.

    Blind ones count as wrong from now on.
    """
    if not tasks:
        return
    rows = [{"project": project, "task": task} for task in tasks]
    connection.execute(insert_new(_table), [row | {"deleted_at": now} for row in rows])
    connection.execute(insert_new(_left), rows)
    BlindQueues(connection, project).count_as_wrong(tasks)


def left_to_forget(connection: Connection, most: int) -> tuple[str, list[int]] | None:
    """Return a project and at most ``most`` of its deleted tasks whose records still exist."""
    rows = connection.execute(_NEXT, {"most": most}).all()
    if not rows:
        return None
    project: str = rows[0].project
    return project, [row.task for row in rows if row.project == project]


def forget_deleted(connection: Connection, project: str, tasks: Sequence[int]) -> None:
    """Delete marked tasks' rounds, recounts, votes, texts, human labels and unshared answers.

    Callers must first take the tasks' human labels out of the rewards, and their texts from the student: that
    needs the rounds.
    """
    Annotations(connection, project).forget_tasks(tasks)
    ProjectRounds(connection, project).forget(tasks)
    answers.forget_tasks(connection, project, tasks)
    Lines(connection).forget_tasks(project, tasks)
    for table in _ABOUT_TASKS:
        delete_tasks(connection, table, project, tasks)


_events, _rounds, _contexts = tables.events.c, tables.rounds.c, tables.contexts
_answers, _links, _blind = tables.answers.c, tables.answer_tasks.c, tables.blind_tasks.c
_further, _lines, _jobs = tables.further_votes.c, tables.batch_lines.c, tables.batch_jobs.c
_PRUNE = (
    update(tables.rounds).where(_rounds.id == bindparam("number")).values(plan=bindparam("rest"), pruned=True)
)


@dataclass(frozen=True, slots=True)
class Prunable:
    """A project's old records."""

    connection: Connection
    project: str

    def last_older(self, before: float) -> int:
        """Return the number of the last event such that it and all events before it are older than a time."""
        of_project = _events.project == self.project
        first_young = self.connection.scalars(
            select(func.min(_events.sequence)).where(of_project, _events.created_at >= before)
        ).one()
        if first_young is not None:
            return int(first_young) - 1
        return int(
            self.connection.scalars(
                select(func.coalesce(func.max(_events.sequence), 0)).where(of_project)
            ).one()
        )

    def states_through(self, sequence: int) -> list[tuple[str, str]]:
        """Return the (control, epoch) of a project's events up to a number."""
        query = (
            select(_events.control, _events.epoch)
            .where(_events.project == self.project, _events.sequence <= sequence)
            .distinct()
            .order_by(_events.control, _events.epoch)
        )
        return [(row.control, row.epoch) for row in self.connection.execute(query)]

    def first_event(self) -> int:
        """Return the number of the project's first event that is there, 1 if there is none."""
        query = select(func.coalesce(func.min(_events.sequence), 1)).where(_events.project == self.project)
        return int(self.connection.scalars(query).one())

    def count_after(self, sequence: int) -> int:
        """Count a project's events after a number."""
        query = select(func.count()).where(_events.project == self.project, _events.sequence > sequence)
        return self.connection.scalars(query).one()

    def count_through(self, sequence: int) -> int:
        """Count a project's events up to a number."""
        query = select(func.count()).where(_events.project == self.project, _events.sequence <= sequence)
        return self.connection.scalars(query).one()

    def unfolded_rounds(self, after: int) -> set[int]:
        """Return the rounds of a project that have an event after a number: they cannot be pruned."""
        query = (
            select(_events.round_id)
            .distinct()
            .where(_events.project == self.project, _events.sequence > after, _events.round_id.is_not(None))
        )
        return set(self.connection.scalars(query))

    def old_rounds(self, before: float) -> list[int]:
        """Return the rounds older than a time that are not pruned.

        Blind ones that wait for an answer are left out, and those about which models were asked since.
        """
        waits = exists().where(
            _blind.project == self.project, _blind.round_id == _rounds.id, _blind.reward.is_(None)
        )
        query = select(_rounds.id).where(
            _rounds.project == self.project,
            _rounds.created_at < before,
            ~_rounds.pruned,
            ~(_rounds.audit & waits),
            ~exists().where(_further.round_id == _rounds.id, _further.created_at >= before),
        )
        return list(self.connection.scalars(query.order_by(_rounds.id)))

    def stale_tasks(self, before: float) -> list[int]:
        """Return the tasks with an answer older than a time, of which no round is left that could use it.

        Tasks that wait for a further answer of a batch are left out: their rounds will use it.
        """
        has_round = exists().where(
            _rounds.project == self.project, _rounds.task == _answers.task, ~_rounds.pruned
        )
        bought = select(_answers.task).where(
            _answers.project == self.project, _answers.created_at < before, ~has_round
        )
        shares_round = exists().where(
            _rounds.project == self.project, _rounds.task == _links.task, ~_rounds.pruned
        )
        shared = (
            select(_links.task)
            .join(tables.answers, _answers.key == _links.key)
            .where(_links.project == self.project, _answers.created_at < before, ~shares_round)
        )
        tasks = set(self.connection.scalars(bought)) | set(self.connection.scalars(shared))
        return sorted(tasks - set(self.connection.scalars(self._waiting)))

    @property
    def _waiting(self) -> Select[tuple[int]]:
        """The tasks with a line that waits for an answer."""
        open_ = _lines.state.not_in(ENDED)
        return select(_lines.task).where(_lines.project == self.project, open_).distinct()

    def prune(self, ids: Sequence[int]) -> None:
        """Delete the contexts of rounds, and of their plans what only a later lesson would need."""
        chosen = among(_rounds.id, ids)
        plans = self.connection.execute(select(_rounds.id, _rounds.plan).where(chosen)).all()
        rows = [{"number": row.id, "rest": _shortened(row.plan)} for row in plans]
        if rows:
            self.connection.execute(_PRUNE, rows)
        of_rounds = among(_further.round_id, ids)
        self.connection.execute(update(tables.further_votes).where(of_rounds).values(confidence=None))
        self.connection.execute(delete(_contexts).where(among(_contexts.c.round_id, ids)))

    def pruned_tasks(self, ids: Sequence[int]) -> list[int]:
        """Return the tasks of pruned rounds that have no other round."""
        other = tables.rounds.alias().c
        has_other = exists().where(
            other.project == _rounds.project, other.task == _rounds.task, ~other.pruned
        )
        query = select(_rounds.task).distinct().where(among(_rounds.id, ids), ~has_other)
        return list(self.connection.scalars(query))

    def forget_texts(self, tasks: Sequence[int]) -> int:
        """Delete the answers and the texts of tasks, and return how many answers that were."""
        ExampleTexts(self.connection, self.project).forget(tasks)
        return answers.forget_tasks(self.connection, self.project, tasks)

    def forget_batches(self, before: float) -> int:
        """Delete a project's batches that ended before a time, and return how many lines that were.

        Lines that still wait for an answer stay, and so do their tasks, with all lines of these, and jobs.
        """
        ended = delete(tables.batch_lines).where(
            _lines.project == self.project,
            _lines.created_at < before,
            _lines.state.in_(ENDED),
            _lines.task.not_in(self._waiting),
        )
        lines = self.connection.execute(ended).rowcount
        waiting = tables.batch_tasks.c
        has_line = exists().where(_lines.project == waiting.project, _lines.task == waiting.task)
        tasks = delete(tables.batch_tasks).where(
            waiting.project == self.project, waiting.created_at < before, ~has_line
        )
        self.connection.execute(tasks)
        empty = ~exists().where(_lines.job == _jobs.id)
        jobs = delete(tables.batch_jobs).where(_jobs.project == self.project, _jobs.ended_at < before, empty)
        self.connection.execute(jobs)
        return lines


def _shortened(plan: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a pruned round's plan that stored predictions and reports still read."""
    kept = {
        name: plan[name] for name in ("labels", "aggregation", "score", "trust", "likely") if name in plan
    }
    arms = {
        arm: {name: columns[name] for name in ("cost", "correctness") if name in columns}
        for arm, columns in plan["arms"].items()
    }
    return kept | {"arms": arms, "pruned": True}


def forget_contexts(connection: Connection, ids: Sequence[int]) -> None:
    """Delete contexts that no event needs any more."""
    connection.execute(delete(_contexts).where(among(_contexts.c.round_id, ids)))


def orphaned_contexts(connection: Connection) -> list[int]:
    """Return the deleted rounds whose context is still there, although no event needs it."""
    query = (
        select(_contexts.c.round_id)
        .outerjoin(tables.rounds, _rounds.id == _contexts.c.round_id)
        .where(_rounds.id.is_(None))
    )
    orphans = set(connection.scalars(query))
    return sorted(orphans - set(connection.scalars(select(_events.round_id).distinct()))) if orphans else []


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
        annotations = tables.human_annotations.c
        linked = select(_links.key).where(_links.project == self.project)
        return Held(
            tasks=self._tasks(),
            rounds=self._count(_rounds.project == self.project),
            answers=self._count(or_(_answers.project == self.project, _answers.key.in_(linked))),
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
        forget_deleted(self.connection, self.project, tasks)

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
