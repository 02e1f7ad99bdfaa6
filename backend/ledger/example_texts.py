"""Texts of human-labelled tasks, kept only where prompts show them as examples, and what that was worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, and_, bindparam, case, delete, func, select

from backend.ledger.database import tables
from backend.ledger.database.upsert import insert_or_replace
from backend.ledger.rounds import unpack
from camvo.scores.few_shot import ExampleTrial
from camvo.typing import Array

_table, _rounds, _votes = tables.example_texts, tables.rounds, tables.votes
_FORGET_PROJECT = delete(_table).where(_table.c.project == bindparam("of"))

MOST = 1000
"""The latest labelled tasks that examples are chosen from."""


@dataclass(frozen=True, slots=True, eq=False)
class LabelledTask:
    """One task with its human label: what an example is made of.

    Attributes:
        task: its number.
        question: the hash of what was shown, as in a round's key.
        texts: field key → text.
        label: what the humans say.
        context: e_t, shape (d,).
    """

    task: int
    question: str
    texts: Mapping[str, str]
    label: str
    context: Array


def put(  # noqa: PLR0917 - the columns of one row
    connection: Connection, project: str, task: int, control: str, question: str, texts: Mapping[str, str]
) -> None:
    """Keep the texts of a task as they are now."""
    row = {"project": project, "task": task, "control": control, "question": question, "texts": dict(texts)}
    connection.execute(insert_or_replace(connection.dialect, _table), row)


def labelled(connection: Connection, project: str, control: str, epoch: str) -> list[LabelledTask]:
    """The latest tasks of a question that have a human label, and whose texts are those of the round."""
    same = and_(*(_table.c[name] == _rounds.c[name] for name in ("project", "task", "control", "question")))
    query = (
        select(_rounds.c.task, _rounds.c.question, _table.c.texts, _rounds.c.human, _rounds.c.context)
        .join(_table, same)
        .where(_rounds.c.project == project, _rounds.c.control == control, _rounds.c.epoch == epoch)
        .where(_rounds.c.human.is_not(None))
        .order_by(_rounds.c.id.desc())
        .limit(MOST)
    )
    return [
        LabelledTask(row.task, row.question, row.texts, row.human, unpack(row.context))
        for row in connection.execute(query)
    ]


def tried(connection: Connection, project: str) -> dict[str, ExampleTrial]:
    """Model → how right its votes were, by human labels, with examples and where a coin left them out."""
    shown = _votes.c.examples > 0
    query = (
        select(
            _votes.c.model,
            func.sum(case((shown, _votes.c.confirmed), else_=0.0)).label("right_with"),
            func.sum(case((shown, 1), else_=0)).label("votes_with"),
            func.sum(case((shown, 0.0), else_=_votes.c.confirmed)).label("right_without"),
            func.sum(case((shown, 0), else_=1)).label("votes_without"),
        )
        .where(_votes.c.project == project)
        .where(_votes.c.examples >= 0, _votes.c.confirmed.is_not(None))
        .group_by(_votes.c.model)
    )
    return {
        row.model: ExampleTrial(
            float(row.right_with), int(row.votes_with), float(row.right_without), int(row.votes_without)
        )
        for row in connection.execute(query)
    }


def forget_task(connection: Connection, project: str, task: int) -> None:
    """Delete a task's texts."""
    connection.execute(delete(_table).where(_table.c.project == project, _table.c.task == task))


def forget_project(connection: Connection, project: str) -> None:
    """Delete the texts of all tasks of a project."""
    connection.execute(_FORGET_PROJECT, {"of": project})
