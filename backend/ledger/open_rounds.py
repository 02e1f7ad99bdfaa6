"""Open rounds: the latest round of each question on each task that no human has annotated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlalchemy import ColumnElement, Connection, and_, func, select

from backend.ledger.database import tables
from backend.ledger.human_annotations import is_open
from backend.ledger.recounts import further_votes
from backend.ledger.recounts import rows as recounts

_columns = tables.rounds.c

MAX_LABELLED_ROUNDS = 2000
"""At most this many human-labelled rounds are compared with the open ones, the latest ones.

More would hardly change which open tasks differ from the labelled ones.
"""


@dataclass(frozen=True, slots=True)
class OpenRound:
    """A round without a human label.

    Attributes:
        id: the round's id in the ledger.
        task: the task's number.
        votes: arm → label, ``None`` where the model gave no vote; those that the label is counted from.
        label: the voted label, by the latest counting.
        score: the probability that it is right, in [0, 1].
    """

    id: int
    task: int
    votes: Mapping[str, str | None]
    label: str
    score: float


def latest_epochs(connection: Connection, project: str) -> dict[str, str]:
    """Return control → the epoch of its latest round."""
    latest = select(func.max(_columns.id)).where(_columns.project == project).group_by(_columns.control)
    query = select(_columns.control, _columns.epoch).where(_columns.id.in_(latest.scalar_subquery()))
    return {row.control: row.epoch for row in connection.execute(query)}


def latest_per_task(connection: Connection, project: str, control: str, epoch: str) -> list[OpenRound]:
    """Return the latest round of each task that nobody has annotated, without audits (blind labelling).

    Pruned rounds are left out: people can teach them nothing. A skipped task counts as annotated; a task
    whose annotations are all withdrawn does not.
    """
    fields = (_columns.id, _columns.task, _columns.votes, _columns.label, _columns.score)
    query = select(*fields).where(
        _of(project, control, epoch), ~_columns.audit, ~_columns.pruned, is_open(project, _columns.task)
    )
    rows = connection.execute(query.order_by(_columns.id))
    latest = {row.task: OpenRound(**row._mapping) for row in rows}
    ids = [round_.id for round_ in latest.values()]
    recounted, further = recounts.latest(connection, ids), further_votes.of_rounds(connection, ids)
    for task, round_ in latest.items():
        if (recount := recounted.get(round_.id)) is not None:
            votes = further_votes.all_votes(round_.votes, further.get(round_.id, ()))
            latest[task] = replace(round_, votes=votes, label=recount.label, score=recount.score)
    return [*latest.values()]


def count_blind_tasks(connection: Connection, project: str) -> int:
    """Count the tasks whose prediction was held back for an audit and that wait for a human label."""
    query = select(func.count(_columns.task.distinct())).where(
        _columns.project == project, _columns.audit, is_open(project, _columns.task)
    )
    return connection.scalars(query).one()


def labelled_round_ids(connection: Connection, project: str, control: str, epoch: str) -> list[int]:
    """Return the ids of the latest rounds that people teach, at most :data:`MAX_LABELLED_ROUNDS`."""
    query = select(_columns.id).where(
        _of(project, control, epoch), _columns.human.is_not(None), ~_columns.audit, ~_columns.pruned
    )
    return list(connection.scalars(query.order_by(_columns.id.desc()).limit(MAX_LABELLED_ROUNDS)))


def _of(project: str, control: str, epoch: str) -> ColumnElement[bool]:
    return and_(_columns.project == project, _columns.control == control, _columns.epoch == epoch)
