"""Prompts about several tasks: their shares of a call, cached tokens, and comparisons with single asking."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("calls", sa.Column("tasks", sa.Integer, nullable=False, server_default="1"))
    op.add_column("calls", sa.Column("cached_tokens", sa.BigInteger))
    several = sa.text("tasks > 1")
    op.create_index(
        "ix_calls_packs",
        "calls",
        ["project", "model", "state", "error_code", "tasks", "cost"],
        sqlite_where=several,
        postgresql_where=several,
    )
    op.create_table(
        "call_shares",
        sa.Column("call", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("task", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("share", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("call", "project", "task", name="pk_call_shares"),
    )
    op.create_index("ix_call_shares_project_task", "call_shares", ["project", "task"])
    op.create_table(
        "pack_checks",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("control", sa.Text, nullable=False),
        sa.Column("epoch", sa.Text, nullable=False),
        sa.Column("arm", sa.Text, nullable=False),
        sa.Column("task", sa.BigInteger, nullable=False),
        sa.Column("agreed", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_pack_checks"),
        sa.UniqueConstraint(
            "project", "control", "epoch", "arm", "task", name="uq_pack_checks_project_control_epoch_arm_task"
        ),
    )
    op.create_index("ix_pack_checks_project_task", "pack_checks", ["project", "task"])
