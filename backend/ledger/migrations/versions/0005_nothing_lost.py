"""Nothing paid is lost, nobody waits: withdrawn labels."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_ROW_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    _withdrawals()


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
