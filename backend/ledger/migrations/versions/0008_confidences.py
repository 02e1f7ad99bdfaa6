"""Answers say how sure their model was, where its provider reports it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("answers", sa.Column("confidences", sa.JSON))
