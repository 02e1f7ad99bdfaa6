"""Further votes: models that a round left out were asked later. The round itself stays as it was.

They count beside the round's own votes when it is counted again (:mod:`.countable_rounds`), and teach with a
human label.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Final, Literal

from sqlalchemy import Connection, case, delete, func, select, update

from backend.ledger.database import tables
from backend.ledger.database.number_sets import among
from backend.ledger.database.upsert import insert_new

_table = tables.further_votes

Purpose = Literal["doubt", "human"]
"""Why a model was asked later: the label was in doubt, or people have labelled the task."""


@dataclass(frozen=True, slots=True)
class FurtherVote:
    """One model's vote after the round.

    Attributes:
        round_id: the round.
        model: the model.
        task: the round's task.
        vote: what it voted; ``None`` if it gave no vote.
        confidence: how sure it said it was, in [0, 1]; ``None`` if it said nothing.
        cost_usd: what was paid for it, in $; shared equally among the questions of the prompt.
        purpose: why it was asked.
        taught: whether the round's human label has taught with this vote.
        created_at: unix seconds.
    """

    round_id: int
    model: str
    task: int
    vote: str | None
    confidence: float | None
    cost_usd: float
    purpose: Purpose
    created_at: float
    taught: bool = False


def store(connection: Connection, project: str, votes: Sequence[FurtherVote]) -> None:
    """Store votes; those that are there already stay as they are."""
    if votes:
        connection.execute(
            insert_new(connection.dialect, _table), [{"project": project, **asdict(vote)} for vote in votes]
        )


def of_rounds(connection: Connection, round_ids: Sequence[int]) -> dict[int, list[FurtherVote]]:
    """Return round → its further votes, by model; rounds without any are absent."""
    if not round_ids:
        return {}
    names = [_table.c[field.name] for field in fields(FurtherVote)]
    query = select(*names).where(among(connection.dialect, _table.c.round_id, round_ids))
    found: dict[int, list[FurtherVote]] = {}
    for row in connection.execute(query.order_by(_table.c.round_id, _table.c.model)):
        found.setdefault(row.round_id, []).append(FurtherVote(**row._mapping))
    return found


def set_taught(connection: Connection, round_id: int, models: Collection[str]) -> None:
    """Record which of a round's further votes its human label has taught with."""
    taught = case((_table.c.model.in_(list(models)), True), else_=False)
    connection.execute(update(_table).where(_table.c.round_id == round_id).values(taught=taught))


def all_votes(votes: Mapping[str, str | None], further: Sequence[FurtherVote]) -> dict[str, str | None]:
    """The votes of a round with the further ones: arm → vote."""
    return {**votes, **{vote.model: vote.vote for vote in further}}


def all_confidences(confidences: Mapping[str, float], further: Sequence[FurtherVote]) -> dict[str, float]:
    """The confidences of a round's votes with those of the further ones: arm → confidence."""
    later = {vote.model: vote.confidence for vote in further if vote.confidence is not None}
    return {**confidences, **later}


@dataclass(frozen=True, slots=True)
class FurtherSum:
    """What a project's further votes of one purpose cost.

    Attributes:
        tasks: how many tasks have some.
        votes: how many models were asked, over all tasks and questions.
        usd: what that cost, in $.
    """

    tasks: int
    votes: int
    usd: float


NO_FURTHER_VOTES: Final = FurtherSum(0, 0, 0.0)


def sums(connection: Connection, project: str) -> dict[Purpose, FurtherSum]:
    """Return purpose → the project's further votes; purposes without any are absent."""
    query = (
        select(
            _table.c.purpose,
            func.count(_table.c.task.distinct()).label("tasks"),
            func.count().label("votes"),
            func.sum(_table.c.cost_usd).label("usd"),
        )
        .where(_table.c.project == project)
        .group_by(_table.c.purpose)
    )
    return {row.purpose: FurtherSum(row.tasks, row.votes, row.usd) for row in connection.execute(query)}


def forget_tasks(connection: Connection, project: str, tasks: Sequence[int]) -> None:
    """Delete the further votes of deleted tasks."""
    chosen = among(connection.dialect, _table.c.task, tasks)
    connection.execute(delete(_table).where(_table.c.project == project, chosen))
