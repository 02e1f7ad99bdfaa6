"""The queue of blind tasks. The blind rounds of older ledgers form its first cohort.

Nobody knows in which order older blind tasks were labelled, nor which were deleted. So they stand in the
order of the hash, and only those labelled without a gap count.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_JSON = sa.JSON(none_as_null=True)
_KEY = ("project", "control", "epoch", "task")
_PORTION = 500


def upgrade() -> None:
    queue = op.create_table(
        "blind_tasks",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("control", sa.Text, nullable=False),
        sa.Column("epoch", sa.Text, nullable=False),
        sa.Column("task", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("round_id", sa.BigInteger, nullable=False),
        sa.Column("cohort", sa.BigInteger, nullable=False),
        sa.Column("place", sa.BigInteger, nullable=False),
        sa.Column("score", sa.Double, nullable=False),
        sa.Column("counting", sa.Text, nullable=False),
        sa.Column("verdicts", _JSON, nullable=False),
        sa.Column("answers", sa.Text, nullable=False),
        sa.Column("reward", sa.Double),
        sa.Column("closed_through", sa.BigInteger),
        sa.PrimaryKeyConstraint(*_KEY, name="pk_blind_tasks"),
    )
    op.create_index("ix_blind_tasks_project_task", "blind_tasks", ["project", "task"])
    connection = op.get_bind()
    annotated = _annotated(connection)
    entered: set[tuple[Any, ...]] = set()
    closed: set[tuple[Any, ...]] = set()
    for rows in _blind_rounds(connection):
        entries = []
        for row in rows:
            key = tuple(getattr(row, name) for name in _KEY)
            if key in entered:
                continue
            entered.add(key)
            entry = _entry(row, (row.project, row.task) in annotated)
            if entry["reward"] is not None and key[:3] not in closed:
                closed.add(key[:3])
                entry["closed_through"] = _newest_round(connection, row.project)
            entries.append(entry)
        if entries:
            connection.execute(sa.insert(queue), entries)


def _entry(row: sa.Row[Any], annotated: bool) -> dict[str, Any]:
    place = hashlib.sha256(f"queue:{row.project}:{row.task}".encode()).digest()[:8]
    counted = json.dumps([row.label, row.score, row.plan], sort_keys=True)
    reward = (row.confirmed or 0.0) if annotated else None
    return {
        **{name: getattr(row, name) for name in _KEY},
        "round_id": row.id,
        "cohort": 1,
        "place": int.from_bytes(place, "big") >> 1,
        "score": row.score,
        "counting": hashlib.sha256(counted.encode()).hexdigest(),
        "verdicts": {"first": row.confirmed, "lowest": {}},
        "answers": "",
        "reward": reward,
        "closed_through": None,
    }


def _blind_rounds(connection: sa.Connection) -> Iterator[list[sa.Row[Any]]]:
    rounds = sa.table(
        "rounds",
        *(sa.column(name) for name in (*_KEY, "id", "label", "score", "audit", "confirmed")),
        sa.column("plan", _JSON),
    )
    last = 0
    while True:
        query = sa.select(rounds).where(rounds.c.audit, rounds.c.id > last).order_by(rounds.c.id)
        rows = list(connection.execute(query.limit(_PORTION)))
        if not rows:
            return
        last = rows[-1].id
        yield rows


def _annotated(connection: sa.Connection) -> set[tuple[str, int]]:
    """The tasks that ever had an annotation; only the tombstones of deleted ones know their task."""
    annotations = sa.table("annotations", sa.column("project"), sa.column("task"))
    query = sa.select(annotations.c.project, annotations.c.task).distinct()
    return {(row.project, row.task) for row in connection.execute(query) if row.task is not None}


def _newest_round(connection: sa.Connection, project: str) -> int:
    rounds = sa.table("rounds", sa.column("id"), sa.column("project"))
    query = sa.select(sa.func.max(rounds.c.id)).where(rounds.c.project == project)
    return int(connection.scalars(query).one())
