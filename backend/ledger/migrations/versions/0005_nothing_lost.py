"""Nothing paid is lost, nobody waits: rates of models."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _model_rates()


def _model_rates() -> None:
    op.create_table(
        "model_rates",
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("state", sa.JSON, nullable=False),
        sa.Column("updated_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("model", name="pk_model_rates"),
    )
