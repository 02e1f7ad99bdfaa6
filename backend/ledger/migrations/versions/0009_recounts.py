"""Kept votes are counted again: the new labels and scores, and each counting."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("blind_tasks", sa.Column("recount", sa.BigInteger, nullable=False, server_default="0"))
    op.create_table(
        "recounts",
        sa.Column("round_id", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("number", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("task", sa.BigInteger, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("score", sa.Double, nullable=False),
        sa.Column("label_changed", sa.Boolean, nullable=False),
        sa.Column("delivered", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("round_id", "number", name="pk_recounts"),
    )
    op.create_index("ix_recounts_project_delivered_task", "recounts", ["project", "delivered", "task"])
    op.create_index("ix_recounts_project_task", "recounts", ["project", "task"])
    op.create_table(
        "countings",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("counted", sa.BigInteger, nullable=False),
        sa.Column("labels", sa.BigInteger, nullable=False),
        sa.Column("scores", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("project", "number", name="pk_countings"),
    )
    op.create_table(
        "recount_looks",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("looked_at", sa.Double, nullable=False),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("counted", sa.BigInteger, nullable=False),
        sa.Column("labels", sa.BigInteger, nullable=False),
        sa.Column("score_change", sa.Double, nullable=False),
        sa.Column("by_hand", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("project", name="pk_recount_looks"),
    )
