"""What a later counting made of a round's kept votes. The round stays as it was."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, case, delete, func, insert, select, update

from backend.ledger.database import tables
from backend.ledger.database.number_sets import among
from backend.ledger.human_annotations import is_open
from backend.ledger.recounts import further_votes
from backend.ledger.rounds import Round, RoundKey

_table, _rounds = tables.recounts, tables.rounds.c

FELT = 0.005
"""The smallest change of a score that is stored; no order or threshold that people use depends on less."""


@dataclass(frozen=True, slots=True)
class Recount:
    """A round's new label and score.

    Attributes:
        round_id: the round.
        task: its task.
        label: the label by the kept votes.
        score: the probability that it is right, in [0, 1].
        label_changed: whether the label is another than before this counting.
    """

    round_id: int
    task: int
    label: str
    score: float
    label_changed: bool


def latest(connection: Connection, round_ids: Sequence[int]) -> dict[int, Recount]:
    """Return round → its latest recount; rounds that were counted once are absent."""
    if not round_ids:
        return {}
    names = [_table.c[field.name] for field in fields(Recount)]
    query = select(*names).where(among(connection.dialect, _table.c.round_id, round_ids))
    return {
        row.round_id: Recount(**row._mapping) for row in connection.execute(query.order_by(_table.c.number))
    }


def with_latest(connection: Connection, found: Mapping[RoundKey, Round]) -> dict[RoundKey, Round]:
    """Return the rounds with their further votes, and with the label and score of their latest recount."""
    ids = [round_.id for round_ in found.values()]
    recounted, further = latest(connection, ids), further_votes.of_rounds(connection, ids)
    return {
        key: replace(
            round_,
            votes=further_votes.all_votes(round_.votes, further.get(round_.id, ())),
            **_decided(recounted.get(round_.id)),
        )
        for key, round_ in found.items()
    }


def _decided(recount: Recount | None) -> dict[str, Any]:
    return {} if recount is None else {"label": recount.label, "score": recount.score}


def new_ones(
    connection: Connection, project: str, results: Iterable[Recount], blind: Collection[int]
) -> list[Recount]:
    """Return the results that change something now: those of rounds that are still there, and still open.

    Args:
        connection: in the transaction that stores them.
        project: the project's key.
        results: what a counting made of rounds.
        blind: the blind tasks that are counted although somebody may have annotated them.
    """
    found = {recount.round_id: recount for recount in results}
    chosen = among(connection.dialect, _rounds.id, [*found])
    counted = case(
        (_rounds.audit, among(connection.dialect, _rounds.task, [*blind])),
        else_=is_open(project, _rounds.task),
    )
    names = (_rounds.id, _rounds.label, _rounds.score)
    query = select(*names).where(_rounds.project == project, chosen, counted).order_by(_rounds.id)
    rows = connection.execute(query).all()
    recounted = latest(connection, [row.id for row in rows])
    news = []
    for row in rows:
        before, result = recounted.get(row.id, row), found[row.id]
        if differs((before.label, before.score), (result.label, result.score)):
            news.append(replace(result, label_changed=before.label != result.label))
    return news


def differs(before: tuple[str, float], after: tuple[str, float]) -> bool:
    """Whether a label with its score differs from another; scores do from :data:`FELT` on."""
    return before[0] != after[0] or abs(before[1] - after[1]) >= FELT


def store(
    connection: Connection, project: str, number: int, recounts: Sequence[Recount], hidden: Collection[int]
) -> None:
    """Store what a counting changed.

    Args:
        connection: a write transaction.
        project: the project's key.
        number: the counting's number.
        recounts: its recounts.
        hidden: the rounds whose prediction Label Studio does not show, so that nothing is to be replaced.
    """
    common = {"number": number, "project": project}
    rows = [{**asdict(each), **common, "delivered": each.round_id in hidden} for each in recounts]
    if rows:
        connection.execute(insert(_table), rows)


def pending(connection: Connection, project: str, *, after: int = 0, limit: int = 1000) -> list[int]:
    """Return the tasks that nobody has annotated and whose prediction Label Studio is to replace.

    Args:
        connection: in a read transaction.
        project: the project's key.
        after: the task after which to begin.
        limit: the most tasks to return.
    """
    query = (
        select(_table.c.task)
        .where(_table.c.project == project, ~_table.c.delivered, _table.c.task > after)
        .where(is_open(project, _table.c.task))
        .distinct()
        .order_by(_table.c.task)
        .limit(limit)
    )
    return list(connection.scalars(query))


def count_pending(connection: Connection, project: str) -> int:
    """Count the tasks that :func:`pending` lists."""
    query = select(func.count(_table.c.task.distinct())).where(
        _table.c.project == project, ~_table.c.delivered, is_open(project, _table.c.task)
    )
    return connection.scalars(query).one()


def changed_labels(connection: Connection, project: str) -> tuple[int, int]:
    """Count the tasks whose label any counting changed, and those for which only the score did."""
    by_task = (
        select(func.max(case((_table.c.label_changed, 1), else_=0)).label("moved"))
        .where(_table.c.project == project)
        .group_by(_table.c.task)
        .subquery()
    )
    moved, every = connection.execute(select(func.coalesce(func.sum(by_task.c.moved), 0), func.count())).one()
    return int(moved), int(every) - int(moved)


def set_delivered(connection: Connection, project: str, tasks: Sequence[int], through: int) -> None:
    """Remember that Label Studio shows these tasks' labels by the countings up to a number."""
    chosen = among(connection.dialect, _table.c.task, tasks)
    of_project = and_(_table.c.project == project, _table.c.number <= through, ~_table.c.delivered)
    connection.execute(update(_table).where(of_project, chosen).values(delivered=True))


def is_recounted(connection: Connection, project: str) -> bool:
    """Whether any of the project's rounds has a recount."""
    query = select(_table.c.round_id).where(_table.c.project == project)
    return connection.execute(query.limit(1)).first() is not None


def latest_score() -> ColumnElement[float]:
    """The expression, in a query of rounds, for a round's score by its latest recount or its own."""
    newest = (
        select(_table.c.score)
        .where(_table.c.round_id == _rounds.id)
        .order_by(_table.c.number.desc())
        .limit(1)
        .scalar_subquery()
    )
    return func.coalesce(newest, _rounds.score)


def forget_tasks(connection: Connection, project: str, tasks: Sequence[int]) -> None:
    """Delete the recounts of deleted tasks."""
    chosen = among(connection.dialect, _table.c.task, tasks)
    connection.execute(delete(_table).where(_table.c.project == project, chosen))
