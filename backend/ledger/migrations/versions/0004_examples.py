"""The texts of human-labelled tasks that prompts show as examples, and which votes were given with them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("votes", sa.Column("examples", sa.Integer))
    op.create_index(
        "ix_votes_project_examples_model_confirmed", "votes", ["project", "examples", "model", "confirmed"]
    )
    op.create_table(
        "example_texts",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("task", sa.BigInteger, nullable=False),
        sa.Column("control", sa.Text, nullable=False),
        sa.Column("question", sa.Text, nullable=False),
        sa.Column("texts", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("project", "task", "control", name="pk_example_texts"),
    )
