"""What the latest counting says of labels that people have answered, to compare it with their answers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "recount_checks",
        sa.Column("round_id", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("task", sa.BigInteger, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("score", sa.Double, nullable=False),
        sa.Column("confirmed", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("round_id", name="pk_recount_checks"),
    )
    op.create_index("ix_recount_checks_project_task", "recount_checks", ["project", "task"])
