"""Nothing paid is lost, nobody waits: failed tasks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _failed_tasks()


def _failed_tasks() -> None:
    op.create_table(
        "failed_tasks",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("task", sa.BigInteger, nullable=False),
        sa.Column("code", sa.Text, nullable=False),
        sa.Column("failed_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("project", "task", name="pk_failed_tasks"),
    )
