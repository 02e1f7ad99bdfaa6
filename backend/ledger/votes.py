"""Votes: what came of asking each model in a round, as numbers that reports sum over.

A round holds the votes themselves; here is how right each was. A model that was asked because others had
disagreed was asked where it is hard: what came of its vote would make it look worse than it is, and is left
out.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, delete, insert, select, update

from backend.ledger.database import tables
from backend.ledger.rounds import Round

_table, _rounds = tables.votes, tables.rounds

Rewards = Mapping[str, float]
"""Arm → how right its vote is, in [0, 1]."""


def store(
    connection: Connection,
    round_: Round,
    round_id: int,
    *,
    agreed: Rewards,
    confirmed: Rewards,
    examples: Mapping[str, int],
) -> None:
    """Store what came of the votes of a new round.

    Args:
        connection: in the transaction that stores the round.
        round_: the round.
        round_id: the number it was given.
        agreed: by the label voted, of arms that had no say in who else was asked; empty where an arm alone
            would agree with itself.
        confirmed: by the humans' label, of arms that were asked whatever the votes; empty without one.
        examples: arm → how many examples its prompt had; 0 where a coin left them out.
    """
    rows = [
        {
            "round_id": round_id,
            "model": arm,
            "project": round_.key.project,
            "audit": round_.audit,
            "voted": vote is not None,
            "agreed": agreed.get(arm),
            "confirmed": confirmed.get(arm),
            "examples": examples.get(arm),
        }
        for arm, vote in round_.votes.items()
    ]
    connection.execute(insert(_table), rows)


def set_confirmed(connection: Connection, round_: Round, confirmed: Rewards) -> None:
    """Record how right the votes of a stored round are by the humans' label of the moment."""
    for arm in round_.votes:
        connection.execute(
            update(_table)
            .where(_table.c.round_id == round_.id, _table.c.model == arm)
            .values(confirmed=confirmed.get(arm))
        )


def forget_task(connection: Connection, project: str, task: int) -> None:
    """Delete what came of the votes on a task; before its rounds, which name them."""
    of_task = select(_rounds.c.id).where(_rounds.c.project == project, _rounds.c.task == task)
    connection.execute(delete(_table).where(_table.c.round_id.in_(of_task)))
