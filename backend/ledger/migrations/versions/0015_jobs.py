"""What a project spends on its job is counted apart from what it spends in all."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("calls", sa.Column("of_job", sa.Boolean, nullable=False, server_default=sa.false()))
