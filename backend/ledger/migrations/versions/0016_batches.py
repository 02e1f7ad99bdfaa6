"""Providers' batches: jobs, their lines, and the tasks that wait for them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "batch_jobs",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("leased_until", sa.Double, nullable=False),
        sa.Column("provider_id", sa.Text),
        sa.Column("files", sa.JSON, nullable=False),
        sa.Column("lines", sa.BigInteger, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("token_limit", sa.BigInteger),
        sa.Column("cancelled", sa.Boolean, nullable=False),
        sa.Column("code", sa.Text),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("sent_at", sa.Double),
        sa.Column("due_at", sa.Double),
        sa.Column("ended_at", sa.Double),
        sa.PrimaryKeyConstraint("id", name="pk_batch_jobs"),
    )
    op.create_index("ix_batch_jobs_state_project", "batch_jobs", ["state", "project"])
    op.create_index("ix_batch_jobs_model_created_at", "batch_jobs", ["model", "created_at"])
    op.create_table(
        "batch_lines",
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("task", sa.BigInteger, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("job", sa.Text),
        sa.Column("call", sa.BigInteger),
        sa.Column("body", sa.JSON),
        sa.Column("questions", sa.JSON, nullable=False),
        sa.Column("ceiling_usd", sa.Double, nullable=False),
        sa.Column("counted_tokens", sa.BigInteger, nullable=False),
        sa.Column("most_input", sa.BigInteger, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("tries", sa.BigInteger, nullable=False),
        sa.Column("code", sa.Text),
        sa.Column("cost", sa.BigInteger),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_batch_lines"),
    )
    op.create_index("ix_batch_lines_project_state_model", "batch_lines", ["project", "state", "model"])
    op.create_index("ix_batch_lines_job_state", "batch_lines", ["job", "state"])
    op.create_index("ix_batch_lines_project_task", "batch_lines", ["project", "task"])
    op.create_table(
        "batch_tasks",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("task", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("questions", sa.Text, nullable=False),
        sa.Column("exploration", sa.Text),
        sa.Column("drawn", sa.JSON, nullable=False),
        sa.Column("plan", sa.JSON, nullable=False),
        sa.Column("asked", sa.JSON, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("project", "task", name="pk_batch_tasks"),
    )
