"""Create the first ledger; revisions 0001 to 0003 were folded into this one before the first release."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = None
branch_labels = None
depends_on = None

_ROW_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    _projects_and_events()
    _rounds()
    _votes()
    _answers()
    _money()
    _annotations()
    _example_texts()
    _deleted_tasks()
    _snapshots()


def _projects_and_events() -> None:
    op.create_table(
        "projects",
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("extra_params", sa.JSON),
        sa.Column("label_config", sa.Text),
        sa.Column("model_version", sa.Text),
        sa.Column("updated_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_projects"),
    )
    op.create_table(
        "events",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("control", sa.Text, nullable=False),
        sa.Column("epoch", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("round_id", sa.BigInteger),
        sa.Column("contribution", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("project", "sequence", name="pk_events"),
    )
    op.create_index(
        "ix_events_project_control_epoch_sequence", "events", ["project", "control", "epoch", "sequence"]
    )


def _rounds() -> None:
    op.create_table(
        "rounds",
        sa.Column("id", _ROW_ID, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("task", sa.BigInteger, nullable=False),
        sa.Column("control", sa.Text, nullable=False),
        sa.Column("question", sa.Text, nullable=False),
        sa.Column("epoch", sa.Text, nullable=False),
        sa.Column("plan", sa.JSON, nullable=False),
        sa.Column("votes", sa.JSON, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("score", sa.Double, nullable=False),
        sa.Column("cost_usd", sa.Double, nullable=False),
        sa.Column("full_cost_usd", sa.Double, nullable=False),
        sa.Column("audit", sa.Boolean, nullable=False),
        sa.Column("taught", sa.Text),
        sa.Column("taught_by", sa.Text),
        sa.Column("context", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("human", sa.Text),
        sa.Column("confirmed", sa.Double),
        sa.PrimaryKeyConstraint("id", name="pk_rounds"),
        sa.UniqueConstraint(
            "project",
            "task",
            "control",
            "question",
            "epoch",
            name="uq_rounds_project_task_control_question_epoch",
        ),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_rounds_project_id", "rounds", ["project", "id"])
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


def _votes() -> None:
    op.create_table(
        "votes",
        sa.Column("round_id", sa.BigInteger, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("audit", sa.Boolean, nullable=False),
        sa.Column("voted", sa.Boolean, nullable=False),
        sa.Column("agreed", sa.Double),
        sa.Column("confirmed", sa.Double),
        sa.Column("examples", sa.Integer),
        sa.PrimaryKeyConstraint("round_id", "model", name="pk_votes"),
    )
    op.create_index(
        "ix_votes_project_model_audit_voted_agreed_confirmed",
        "votes",
        ["project", "model", "audit", "voted", "agreed", "confirmed"],
    )
    op.create_index(
        "ix_votes_project_examples_model_confirmed", "votes", ["project", "examples", "model", "confirmed"]
    )


def _answers() -> None:
    op.create_table(
        "answers",
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("input_tokens", sa.BigInteger, nullable=False),
        sa.Column("output_tokens", sa.BigInteger, nullable=False),
        sa.Column("cost", sa.BigInteger, nullable=False),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_answers"),
    )
    op.create_table(
        "answer_tasks",
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("task", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("key", "project", "task", name="pk_answer_tasks"),
    )
    op.create_index("ix_answer_tasks_project_task", "answer_tasks", ["project", "task"])
    op.create_table(
        "claims",
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_claims"),
    )


def _money() -> None:
    op.create_table(
        "calls",
        sa.Column("id", _ROW_ID, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("task", sa.BigInteger, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("reserved", sa.BigInteger, nullable=False),
        sa.Column("cost", sa.BigInteger),
        sa.Column("counted_tokens", sa.BigInteger, nullable=False),
        sa.Column("input_tokens", sa.BigInteger),
        sa.Column("output_tokens", sa.BigInteger),
        sa.Column("error_code", sa.Text),
        sa.Column("seconds", sa.Double),
        sa.Column("day", sa.Text, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_calls"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_calls_state_expires_at", "calls", ["state", "expires_at"])
    op.create_index(
        "ix_calls_project_model_state_error_code_seconds_cost",
        "calls",
        ["project", "model", "state", "error_code", "seconds", "cost"],
    )
    op.create_table(
        "accounts",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("scope", sa.Text, nullable=False),
        sa.Column("spent", sa.BigInteger, nullable=False),
        sa.Column("reserved", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("project", "scope", name="pk_accounts"),
    )


def _annotations() -> None:
    op.create_table(
        "annotations",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("annotation_id", sa.BigInteger, nullable=False),
        sa.Column("task", sa.BigInteger),
        sa.Column("updated_at", sa.Text, nullable=False),
        sa.Column("labels", sa.JSON, nullable=False),
        sa.Column("ground_truth", sa.Boolean, nullable=False),
        sa.Column("teaches", sa.Boolean, nullable=False),
        sa.Column("origin", sa.Text),
        sa.Column("prediction_shown", sa.Boolean, nullable=False),
        sa.Column("completed_by", sa.BigInteger),
        sa.Column("deleted", sa.Boolean, nullable=False),
        sa.Column("received_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("project", "annotation_id", name="pk_annotations"),
    )
    op.create_index("ix_annotations_project_task", "annotations", ["project", "task"])


def _example_texts() -> None:
    op.create_table(
        "example_texts",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("task", sa.BigInteger, nullable=False),
        sa.Column("control", sa.Text, nullable=False),
        sa.Column("question", sa.Text, nullable=False),
        sa.Column("texts", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("project", "task", "control", name="pk_example_texts"),
    )


def _deleted_tasks() -> None:
    op.create_table(
        "deleted_tasks",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("task", sa.BigInteger, nullable=False),
        sa.Column("deleted_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("project", "task", name="pk_deleted_tasks"),
    )


def _snapshots() -> None:
    op.create_table(
        "snapshots",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("control", sa.Text, nullable=False),
        sa.Column("epoch", sa.Text, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("state", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("project", "control", "epoch", "sequence", name="pk_snapshots"),
    )
