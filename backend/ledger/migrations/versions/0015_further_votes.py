"""Models that a round left out are asked later: their votes, and what of the money is set aside for that."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("calls", sa.Column("purse", sa.Text))
    op.create_table(
        "further_votes",
        sa.Column("round_id", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("task", sa.BigInteger, nullable=False),
        sa.Column("vote", sa.Text),
        sa.Column("confidence", sa.Double),
        sa.Column("cost_usd", sa.Double, nullable=False),
        sa.Column("purpose", sa.Text, nullable=False),
        sa.Column("taught", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("round_id", "model", name="pk_further_votes"),
    )
    op.create_index("ix_further_votes_project_task", "further_votes", ["project", "task"])
