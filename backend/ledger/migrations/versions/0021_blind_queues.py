"""The counting that each queue of blind tasks certifies, also where all its tasks are of an earlier one."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "blind_queues",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("control", sa.Text, nullable=False),
        sa.Column("epoch", sa.Text, nullable=False),
        sa.Column("recount", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("project", "control", "epoch", name="pk_blind_queues"),
    )
    op.execute("""
        INSERT INTO blind_queues (project, control, epoch, recount)
        SELECT rounds.project, rounds.control, rounds.epoch, max(recounts.number)
        FROM recounts JOIN rounds ON rounds.id = recounts.round_id
        GROUP BY rounds.project, rounds.control, rounds.epoch
    """)
