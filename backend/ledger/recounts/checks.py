"""What the latest counting says of rounds that people have answered, beside their answers.

Nobody sees these labels: an answered task keeps its own. They say how right the labels and scores are that
the same counting gave to the other tasks. The label of a round was counted without knowing its answer: either
somebody answered after the counting, or the counting took the answer out of what it had learnt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import ColumnElement, Connection, delete, func, select, update

from backend.ledger.database import tables
from backend.ledger.database.number_sets import among
from backend.ledger.database.upsert import insert_or_replace
from backend.ledger.recounts import rows as recounts

_table, _rounds = tables.recount_checks, tables.rounds.c


@dataclass(frozen=True, slots=True)
class RecountCheck:
    """A round that people have answered.

    Attributes:
        round_id: the round.
        task: its task.
        human: the answer.
        label: the label by its kept votes, counted without the answer.
        score: the probability that it is right, in [0, 1].
        confirmed: the label's agreement with the answer, in [0, 1].
    """

    round_id: int
    task: int
    human: str
    label: str
    score: float
    confirmed: float


def store(connection: Connection, project: str, checks: Sequence[RecountCheck]) -> None:
    """Store checks, except of rounds whose answer has changed since."""
    chosen = among(connection.dialect, _rounds.id, [check.round_id for check in checks])
    answers = select(_rounds.id, _rounds.human).where(_rounds.project == project, chosen)
    human: dict[int, str | None] = {row.id: row.human for row in connection.execute(answers)}
    rows = [
        {name: value for name, value in asdict(check).items() if name != "human"} | {"project": project}
        for check in checks
        if human.get(check.round_id) == check.human
    ]
    if rows:
        connection.execute(insert_or_replace(connection.dialect, _table), rows)


def hear(
    connection: Connection,
    project: str,
    task: int,
    round_id: int,
    confirmation: Callable[[str], float | None],
) -> None:
    """Take in a new answer to a round that was counted again, or that an answer is gone.

    Args:
        connection: a write transaction.
        project: the project's key.
        task: the round's task.
        round_id: the round.
        confirmation: the agreement of a label with the answer; ``None`` if there is none any more.
    """
    stored = select(_table.c.label).where(_table.c.round_id == round_id)
    of_round = _table.c.round_id == round_id
    if (label := connection.execute(stored).scalar_one_or_none()) is not None:
        if (confirmed := confirmation(label)) is None:
            connection.execute(delete(_table).where(of_round))
        else:
            connection.execute(update(_table).where(of_round).values(confirmed=confirmed))
        return
    recount = recounts.latest(connection, [round_id]).get(round_id)
    if recount is not None and (confirmed := confirmation(recount.label)) is not None:
        found = {"label": recount.label, "score": recount.score, "confirmed": confirmed}
        row = {"round_id": round_id, "project": project, "task": task, **found}
        connection.execute(insert_or_replace(connection.dialect, _table), row)


def latest_score() -> ColumnElement[float]:
    """The expression, in a query of rounds, for the score that the latest counting gives a round."""
    checked = select(_table.c.score).where(_table.c.round_id == _rounds.id).scalar_subquery()
    return func.coalesce(checked, recounts.latest_score())


def latest_confirmed() -> ColumnElement[float]:
    """The expression, in a query of rounds, for how right the latest counting's label is."""
    checked = select(_table.c.confirmed).where(_table.c.round_id == _rounds.id).scalar_subquery()
    return func.coalesce(checked, _rounds.confirmed)


def forget_tasks(connection: Connection, project: str, tasks: Sequence[int]) -> None:
    """Delete the checks of deleted tasks."""
    chosen = among(connection.dialect, _table.c.task, tasks)
    connection.execute(delete(_table).where(_table.c.project == project, chosen))
