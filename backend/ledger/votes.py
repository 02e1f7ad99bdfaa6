"""How right each model's vote was, as numbers that reports can sum.

The votes themselves are part of their round. A model that is asked only because others disagreed sees the
harder tasks, so comparing its votes would make it look worse than it is; such votes are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from backend.ledger.database import tables
from backend.ledger.database.number_sets import among
from backend.ledger.rounds import Round

_table, _rounds = tables.votes, tables.rounds
_ADD = insert(_table)

Rewards = Mapping[str, float]
"""Arm → how right its vote is, in [0, 1]."""


def rows_of(
    round_: Round, round_id: int, *, agreed: Rewards, confirmed: Rewards, examples: Mapping[str, int]
) -> list[dict[str, Any]]:
    """The rows of a new round's votes, one for each, for :func:`add`.

    Args:
        round_: the round.
        round_id: the id under which the round was stored.
        agreed: agreement with the voted label, for the arms whose votes did not decide which other arms
            were asked; empty if only one arm voted, because it would agree with itself.
        confirmed: agreement with the human label, for the arms that were asked regardless of other votes;
            empty without a human label.
        examples: arm → number of examples in its prompt; 0 where they were left out at random.
    """
    return [
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


def add(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Store rows of votes."""
    if rows:
        connection.execute(_ADD, rows)


def set_confirmed(connection: Connection, round_: Round, confirmed: Rewards) -> None:
    """Record how right the votes of a stored round are by the current human label."""
    for arm in round_.votes:
        connection.execute(
            update(_table)
            .where(_table.c.round_id == round_.id, _table.c.model == arm)
            .values(confirmed=confirmed.get(arm))
        )


def forget_tasks(connection: Connection, project: str, tasks: Sequence[int]) -> None:
    """Delete tasks' rows. Must run before the rounds are deleted, because rows are found through them."""
    among_tasks = among(connection.dialect, _rounds.c.task, tasks)
    of_tasks = select(_rounds.c.id).where(_rounds.c.project == project, among_tasks)
    connection.execute(delete(_table).where(_table.c.round_id.in_(of_tasks)))
