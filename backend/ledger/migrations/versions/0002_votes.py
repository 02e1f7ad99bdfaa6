"""What came of each model's vote, and what humans say of each round, as numbers that are quick to sum."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_EACH_VOTE = {
    "sqlite": "json_each(rounds.votes) AS vote",
    "postgresql": "json_each_text(rounds.votes) AS vote",
}


def upgrade() -> None:
    op.add_column("rounds", sa.Column("human", sa.Text))
    op.add_column("rounds", sa.Column("confirmed", sa.Double))
    op.create_table(
        "votes",
        sa.Column("round_id", sa.BigInteger, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("audit", sa.Boolean, nullable=False),
        sa.Column("voted", sa.Boolean, nullable=False),
        sa.Column("agreed", sa.Double),
        sa.Column("confirmed", sa.Double),
        sa.PrimaryKeyConstraint("round_id", "model", name="pk_votes"),
    )
    _fill()
    _index()


def _fill() -> None:
    """Of the ledger so far, in which every vote is a label."""
    op.execute(
        "UPDATE rounds SET human = taught, confirmed = CASE WHEN taught = label THEN 1.0 ELSE 0.0 END "
        "WHERE taught_by = 'human'"
    )
    each = _EACH_VOTE[op.get_bind().dialect.name]
    op.execute(
        f"""
        INSERT INTO votes (round_id, model, project, audit, voted, agreed, confirmed)
        SELECT rounds.id, vote.key, rounds.project, rounds.audit, vote.value IS NOT NULL,
            CASE WHEN vote.value IS NOT NULL AND (SELECT count(vote.value) FROM {each}) > 1
                THEN CASE WHEN vote.value = rounds.label THEN 1.0 ELSE 0.0 END END,
            CASE WHEN vote.value IS NOT NULL AND rounds.human IS NOT NULL
                THEN CASE WHEN vote.value = rounds.human THEN 1.0 ELSE 0.0 END END
        FROM rounds CROSS JOIN {each}
        """  # noqa: S608 - our own
    )


def _index() -> None:
    op.create_index(
        "ix_votes_project_model_audit_voted_agreed_confirmed",
        "votes",
        ["project", "model", "audit", "voted", "agreed", "confirmed"],
    )
    op.create_index(
        "ix_rounds_report",
        "rounds",
        [
            "project",
            "control",
            "epoch",
            "audit",
            "confirmed",
            "score",
            "cost_usd",
            "full_cost_usd",
            "created_at",
        ],
    )
    op.create_index(
        "ix_calls_project_model_state_error_code_seconds_cost",
        "calls",
        ["project", "model", "state", "error_code", "seconds", "cost"],
    )
    op.drop_index("ix_calls_project", "calls")
