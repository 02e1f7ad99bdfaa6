"""People are voters: their time, and how often each is right."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("annotations", sa.Column("lead_time", sa.Double))
    op.create_table(
        "reliabilities",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("control", sa.Text, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("accuracies", sa.JSON, nullable=False),
        sa.Column("annotations", sa.BigInteger, nullable=False),
        sa.Column("applied", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("project", "control", "number", name="pk_reliabilities"),
    )
