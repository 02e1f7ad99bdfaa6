"""What has changed: the versions that providers report, and tests of stops and models."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("answers", sa.Column("version", sa.Text))
    op.create_table(
        "drift_tests",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("control", sa.Text, nullable=False),
        sa.Column("epoch", sa.Text, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("tests", sa.JSON, nullable=False),
        sa.Column("updated_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("project", "control", "epoch", name="pk_drift_tests"),
    )
