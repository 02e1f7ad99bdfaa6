"""Several tasks in one line of a provider's batch: which line it is, and the task's id in its prompt."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("batch_lines", sa.Column("request", sa.Text))
    op.add_column("batch_lines", sa.Column("number", sa.Text))
