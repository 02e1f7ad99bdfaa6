"""Certificates that were issued about a project's labels, with what each covers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "certificates",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("issued_at", sa.Double, nullable=False),
        sa.Column("counting", sa.BigInteger, nullable=False),
        sa.Column("through", sa.BigInteger, nullable=False),
        sa.Column("labels", sa.BigInteger, nullable=False),
        sa.Column("labels_hash", sa.Text, nullable=False),
        sa.Column("evidence", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("file_hash", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("project", "number", name="pk_certificates"),
    )
