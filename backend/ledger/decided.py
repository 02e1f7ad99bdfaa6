"""What was decided about a question's tasks, without the tasks' content: label, score and votes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from backend.ledger.database import tables
from backend.ledger.recounts import latest

_rounds = tables.rounds.c
_PORTION = 500


@dataclass(frozen=True, slots=True)
class DecidedTask:
    """A task with a round on a question.

    Attributes:
        round_id: the round.
        label: its label, by the latest counting.
        score: the probability that it is right, by the latest counting.
        votes: arm → vote, ``None`` where the model gave none.
        human: what people say; ``None`` while they say nothing.
    """

    round_id: int
    label: str
    score: float
    votes: Mapping[str, str | None]
    human: str | None


def decided_tasks(connection: Connection, project: str, control: str, epoch: str) -> Iterator[DecidedTask]:
    """Read the rounds of a question in one epoch, by id."""
    columns = (_rounds.id, _rounds.label, _rounds.score, _rounds.votes, _rounds.human)
    of = (_rounds.project == project, _rounds.control == control, _rounds.epoch == epoch)
    query, last = select(*columns).where(*of).order_by(_rounds.id).limit(_PORTION), 0
    while rows := connection.execute(query.where(_rounds.id > last)).all():
        last = rows[-1].id
        counted = latest(connection, [row.id for row in rows])
        for row in rows:
            now = counted.get(row.id, row)
            yield DecidedTask(row.id, now.label, now.score, row.votes, row.human)


def cost_of_a_task(connection: Connection, project: str, control: str) -> float:
    """What the calls about one task have cost on average, in $, where models were asked; 0 without one."""
    cost = select(func.avg(_rounds.cost_usd)).where(
        _rounds.project == project, _rounds.control == control, _rounds.carried_from.is_(None)
    )
    return float(connection.scalars(cost).one() or 0.0)
