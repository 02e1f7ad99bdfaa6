"""Nothing paid is lost, nobody waits: outages, failed tasks, withdrawn labels and rates of models."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _outages()
    _failed_tasks()


def _outages() -> None:
    op.add_column("claims", sa.Column("call", sa.BigInteger))
    op.create_table(
        "tasks_to_forget",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("task", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("project", "task", name="pk_tasks_to_forget"),
    )
    op.create_table(
        "readiness",
        sa.Column("id", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("checked_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_readiness"),
    )


def _failed_tasks() -> None:
    op.create_table(
        "failed_tasks",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("task", sa.BigInteger, nullable=False),
        sa.Column("code", sa.Text, nullable=False),
        sa.Column("failed_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("project", "task", name="pk_failed_tasks"),
    )
