"""A smaller ledger: contexts once, compressed plans, fewer keys; bases and pruned rounds for retention.

Contexts move out of the rounds. Plans, events and answers that are there stay as they are and are read as
before; SQLite copies three tables, which takes as much room again for a moment.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _retention()
    _contexts()
    _answers()
    _votes()
    _calls()
    _keys()


def _retention() -> None:
    op.add_column(
        "projects", sa.Column("feedback_refused", sa.BigInteger, nullable=False, server_default="0")
    )
    op.create_table(
        "bases",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("control", sa.Text, nullable=False),
        sa.Column("epoch", sa.Text, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("events", sa.BigInteger, nullable=False),
        sa.Column("state", sa.LargeBinary, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("project", "control", "epoch", name="pk_bases"),
    )


def _contexts() -> None:
    op.create_table(
        "contexts",
        sa.Column("round_id", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("context", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("round_id", name="pk_contexts"),
    )
    op.execute("INSERT INTO contexts (round_id, context) SELECT id, context FROM rounds")
    last = _last_id("rounds")
    with op.batch_alter_table("rounds", table_kwargs={"sqlite_autoincrement": True}) as rounds:
        rounds.drop_column("context")
        rounds.add_column(sa.Column("pruned", sa.Boolean, nullable=False, server_default=sa.false()))
        rounds.alter_column(
            "plan",
            existing_type=sa.JSON,
            existing_nullable=False,
            type_=sa.LargeBinary,
            postgresql_using="convert_to(plan::text, 'UTF8')",
        )
    if last is not None:  # of rounds that were deleted, too: ids are never used again
        op.get_bind().execute(sa.text("UPDATE sqlite_sequence SET seq = :last WHERE name = 'rounds'"), last)


def _answers() -> None:
    with _without_rowid("answers") as answers:
        answers.add_column(sa.Column("project", sa.Text))
        answers.add_column(sa.Column("task", sa.BigInteger))
        answers.create_index("ix_answers_task", ["task"])


def _votes() -> None:
    op.drop_index("ix_votes_project_examples_model_confirmed", "votes")
    with _without_rowid("votes"):
        pass
    op.create_index(
        "ix_votes_project_examples_model_confirmed",
        "votes",
        ["project", "examples", "model", "confirmed"],
        **_where("examples IS NOT NULL"),
    )


def _calls() -> None:
    op.drop_index("ix_calls_state_expires_at", "calls")
    op.create_index("ix_calls_expires_at", "calls", ["expires_at"], **_where("state = 'reserved'"))


def _keys() -> None:
    """Keys of answers have 128 bits; those of other lengths are no hashes."""
    for table in ("answers", "answer_tasks", "calls", "claims"):
        op.execute(f"UPDATE {table} SET key = substr(key, 1, 32) WHERE length(key) = 64")  # noqa: S608 - fixed


def _last_id(table: str) -> dict[str, Any] | None:
    """The last id that SQLite gave out; ``None`` on PostgreSQL, which copies no table."""
    if op.get_bind().dialect.name != "sqlite":
        return None
    query = sa.text("SELECT max(seq) AS last FROM sqlite_sequence WHERE name = :table")
    return {"last": op.get_bind().execute(query, {"table": table}).scalar() or 0}


def _without_rowid(table: str) -> Any:
    """Copy a table of SQLite into one that is its primary key; PostgreSQL knows no such thing."""
    return op.batch_alter_table(
        table,
        recreate="always" if op.get_bind().dialect.name == "sqlite" else "never",
        table_kwargs={"sqlite_with_rowid": False},
    )


def _where(condition: str) -> dict[str, Any]:
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}
