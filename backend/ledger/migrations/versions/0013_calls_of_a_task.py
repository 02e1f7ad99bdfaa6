"""What a task's calls cost is read by task."""

from __future__ import annotations

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_calls_project_task", "calls", ["project", "task"])
