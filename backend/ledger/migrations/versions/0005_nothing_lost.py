"""Nothing paid is lost, nobody waits: outages, failed tasks, withdrawn labels and rates of models."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_ROW_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    _outages()
    _failed_tasks()
    _withdrawals()
    _model_rates()


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


def _withdrawals() -> None:
    op.create_table(
        "withdrawals",
        sa.Column("id", _ROW_ID, nullable=False),
        sa.Column("project", sa.Text),
        sa.Column("task", sa.BigInteger),
        sa.Column("annotator", sa.BigInteger),
        sa.Column("since", sa.Double),
        sa.Column("until", sa.Double),
        sa.Column("withdrawn", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_withdrawals"),
    )
    # The default fills the existing rows only; new rows always name a value.
    op.add_column(
        "annotations", sa.Column("withdrawn", sa.Boolean, nullable=False, server_default=sa.false())
    )
    with op.batch_alter_table("annotations") as annotations:
        annotations.alter_column("withdrawn", existing_type=sa.Boolean, server_default=None)


def _model_rates() -> None:
    op.create_table(
        "model_rates",
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("state", sa.JSON, nullable=False),
        sa.Column("updated_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("model", name="pk_model_rates"),
    )
