"""Tasks whose predictions ``camvo accept`` turned into annotations, which are never learnt."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "accepted",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("task", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("annotation_id", sa.BigInteger),
        sa.Column("labels", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("score", sa.Double, nullable=False),
        sa.Column("certified", sa.Boolean, nullable=False),
        sa.Column("accepted_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("project", "task", name="pk_accepted"),
    )
