"""Alerts that people were told of, and what projects are called and where they are."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("projects", sa.Column("title", sa.Text))
    op.add_column("projects", sa.Column("hostname", sa.Text))
    # Projects with a label config were set up before their address was stored.
    op.execute("UPDATE projects SET hostname = '' WHERE label_config IS NOT NULL")
    op.add_column("projects", sa.Column("task_number", sa.BigInteger))
    op.add_column("projects", sa.Column("predicted", sa.JSON))
    op.create_table(
        "alerts",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("code", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("began_at", sa.Double, nullable=False),
        sa.Column("seen_at", sa.Double, nullable=False),
        sa.Column("posted_at", sa.Double),
        sa.Column("over_at", sa.Double),
        sa.PrimaryKeyConstraint("project", "code", "subject", name="pk_alerts"),
    )
