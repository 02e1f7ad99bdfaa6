"""The rounds that people have labelled, of which models were left out; and what recounts showed of labels."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from backend.ledger.database import tables
from backend.ledger.recounts import countings
from backend.ledger.recounts import rows as recounts
from camvo.scores.reviews.label_value import NOTHING_SEEN, TaughtBefore

_annotations = tables.human_annotations.c
_rounds, _further = tables.rounds.c, tables.further_votes.c


def incomplete(connection: Connection, project: str, *, after: int, limit: int) -> list[int]:
    """Return labelled tasks with a model that has neither voted nor failed, the lowest number first.

    Blind tasks are left out: their labels teach nothing.

    Args:
        connection: in a read transaction.
        project: the project's key.
        after: the task after which to begin.
        limit: the most tasks to return.
    """
    further = select(func.count()).where(_further.round_id == _rounds.id).scalar_subquery()
    query = (
        select(_rounds.task, _rounds.plan, _rounds.votes, further.label("further"))
        .where(_rounds.project == project, _rounds.taught_by == "human", ~_rounds.audit, ~_rounds.pruned)
        .where(_rounds.task > after)
        .order_by(_rounds.task)
    )
    found: list[int] = []
    for row in connection.execute(query):
        models = row.plan["arms"].keys()
        if len(row.votes.keys() & models) + row.further < len(models) and row.task not in found:
            found.append(row.task)
            if len(found) == limit:
                break
    return found


def taught_before(connection: Connection, project: str) -> TaughtBefore:
    """What labels have taught, by the tasks that people labelled after a counting; not by blind ones.

    Args:
        connection: in a read transaction.
        project: the project's key.
    """
    made = countings.of_project(connection, project)
    if not made:
        return NOTHING_SEEN
    first = made[-1].created_at
    heard = (
        select(func.min(_annotations.received_at))
        .where(_annotations.project == project, _annotations.task == _rounds.task, ~_annotations.deleted)
        .scalar_subquery()
    )
    names = (_rounds.id, _rounds.score, _rounds.human, _rounds.label, heard.label("heard"))
    query = select(*names).where(_rounds.project == project, _rounds.human.is_not(None), ~_rounds.audit)
    rows = connection.execute(query).all()
    later = [row for row in rows if row.heard is not None and row.heard > first]
    recounted = recounts.latest(connection, [row.id for row in later])
    was = [float(row.label == row.human) for row in later]
    now = [
        float((recounted[row.id].label if row.id in recounted else row.label) == row.human) for row in later
    ]
    return TaughtBefore(
        labels=float(len(rows) - len(later)),
        wrong=sum(1.0 - row.score for row in later),
        gained=sum(now) - sum(was),
        moved=float(sum(one != other for one, other in zip(was, now, strict=True))),
    )
