"""Texts of human-labelled tasks, stored only in projects whose prompts show examples (``few_shot``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, and_, bindparam, delete, select

from backend.ledger.database import tables
from backend.ledger.database.number_sets import among
from backend.ledger.database.packing import unpack_context
from backend.ledger.database.upsert import insert_or_replace
from camvo.typing import Array

_table, _rounds, _contexts = tables.example_texts, tables.rounds, tables.contexts
_FORGET_PROJECT = delete(_table).where(_table.c.project == bindparam("of"))

MAX_TASKS = 1000
"""Examples are chosen from this many labelled tasks at most, the latest ones."""


@dataclass(frozen=True, slots=True, eq=False)
class LabelledTask:
    """One task with its human label, to be shown as an example.

    Attributes:
        task: the task's number.
        question: hash of what the models were shown, as in the round's key.
        texts: field key → text.
        label: the human label.
        context: e_t, shape (d,).
    """

    task: int
    question: str
    texts: Mapping[str, str]
    label: str
    context: Array


def store(  # noqa: PLR0917 - the columns of one row
    connection: Connection, project: str, task: int, control: str, question: str, texts: Mapping[str, str]
) -> None:
    """Store the current texts of a task, in place of older ones."""
    row = {"project": project, "task": task, "control": control, "question": question, "texts": dict(texts)}
    connection.execute(insert_or_replace(connection.dialect, _table), row)


def labelled_tasks(connection: Connection, project: str, control: str, epoch: str) -> list[LabelledTask]:
    """Return the question's human-labelled tasks, the latest first, at most :data:`MAX_TASKS`.

    Blind tasks are left out, because an example teaches the votes, and tasks whose texts have changed since
    their round.
    """
    same_task = and_(
        *(_table.c[name] == _rounds.c[name] for name in ("project", "task", "control", "question"))
    )
    query = (
        select(_rounds.c.task, _rounds.c.question, _table.c.texts, _rounds.c.human, _contexts.c.context)
        .join(_table, same_task)
        .join(_contexts, _contexts.c.round_id == _rounds.c.id)
        .where(_rounds.c.project == project, _rounds.c.control == control, _rounds.c.epoch == epoch)
        .where(_rounds.c.human.is_not(None), ~_rounds.c.audit)
        .order_by(_rounds.c.id.desc())
        .limit(MAX_TASKS)
    )
    return [
        LabelledTask(row.task, row.question, row.texts, row.human, unpack_context(row.context))
        for row in connection.execute(query)
    ]


def forget_tasks(connection: Connection, project: str, tasks: Sequence[int]) -> None:
    """Delete tasks' texts."""
    of_tasks = among(connection.dialect, _table.c.task, tasks)
    connection.execute(delete(_table).where(_table.c.project == project, of_tasks))


def forget_project(connection: Connection, project: str) -> None:
    """Delete the texts of all tasks of a project."""
    connection.execute(_FORGET_PROJECT, {"of": project})
