"""Let claims hold their call, and keep lists of what is to be forgotten and of checks that writes succeed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
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
