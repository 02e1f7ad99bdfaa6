"""The rounds whose kept votes can be counted again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from backend.ledger.database import tables
from backend.ledger.database.packing import unpack_context
from backend.ledger.human_annotations import is_open
from backend.ledger.recounts import further_votes
from backend.ledger.recounts import rows as recounts
from camvo.typing import Array

_rounds, _contexts = tables.rounds.c, tables.contexts.c


@dataclass(frozen=True, slots=True, eq=False)
class CountableRound:
    """A round whose votes can be counted again, with its label and score by the latest counting.

    Attributes:
        id: the round's id.
        task: the task's number.
        votes: arm → vote, further votes included; ``None`` where the model gave none.
        confidences: arm → how sure it said it was, in [0, 1], for the arms that said so.
        plan: the plan as JSON.
        context: the embedding, shape (d,).
        label: the label now.
        score: its score now.
        audit: whether the task is blind.
        full_cost_usd: what asking every model about the task costs, in $.
    """

    id: int
    task: int
    votes: Mapping[str, str | None]
    confidences: Mapping[str, float]
    plan: Mapping[str, Any]
    context: Array
    label: str
    score: float
    audit: bool
    full_cost_usd: float


def countable_rounds(
    connection: Connection, project: str, control: str, epoch: str, *, after: int, limit: int
) -> list[CountableRound]:
    """Return rounds of a question whose task nobody has annotated, and all blind ones, in the order of ids.

    A task that has several rounds, because its text has changed, is there with its latest. Pruned rounds are
    left out.

    Args:
        connection: in a read transaction.
        project: the project's key.
        control: the name of the control tag.
        epoch: the epoch.
        after: the id after which to begin.
        limit: the most rounds to return.
    """
    later = tables.rounds.alias()
    is_latest = ~(
        select(later.c.id)
        .where(
            later.c.project == project,
            later.c.task == _rounds.task,
            later.c.control == control,
            later.c.epoch == epoch,
            later.c.id > _rounds.id,
        )
        .exists()
    )
    names = ("id", "task", "votes", "plan", "label", "score", "audit", "full_cost_usd")
    query = (
        select(*(_rounds[name] for name in names), _contexts.context)
        .join(tables.contexts, _contexts.round_id == _rounds.id)
        .where(_rounds.project == project, _rounds.control == control, _rounds.epoch == epoch)
        .where(~_rounds.pruned, _rounds.id > after, is_latest, _rounds.audit | is_open(project, _rounds.task))
        .order_by(_rounds.id)
        .limit(limit)
    )
    rows = [dict(row._mapping) for row in connection.execute(query)]
    ids = [row["id"] for row in rows]
    recounted, further = recounts.latest(connection, ids), further_votes.of_rounds(connection, ids)
    for row in rows:
        added = further.get(row["id"], [])
        row["votes"] = further_votes.all_votes(row["votes"], added)
        row["confidences"] = further_votes.all_confidences(row["plan"].get("confidences", {}), added)
        row["context"] = unpack_context(row["context"])
        if (recount := recounted.get(row["id"])) is not None:
            row |= {"label": recount.label, "score": recount.score}
    return [CountableRound(**row) for row in rows]
