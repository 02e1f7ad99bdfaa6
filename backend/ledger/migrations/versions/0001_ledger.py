"""The tables of the ledger."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
JSON_VALUE = sa.JSON(none_as_null=True)


def upgrade() -> None:
    _batches()
    _answers_and_money()
    _recounts_and_certificates()
    _learning()
    _people_and_projects()
    _rounds_and_tasks()


def _where(condition: str) -> dict[str, Any]:
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}


def _batches() -> None:
    op.create_table(
        "batch_jobs",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("leased_until", sa.Double, nullable=False),
        sa.Column("provider_id", sa.Text),
        sa.Column("files", JSON_VALUE, nullable=False),
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
    op.create_index("ix_batch_jobs_model_created_at", "batch_jobs", ["model", "created_at"])
    op.create_index("ix_batch_jobs_state_project", "batch_jobs", ["state", "project"])
    op.create_table(
        "batch_lines",
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("task", sa.BigInteger, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("job", sa.Text),
        sa.Column("call", sa.BigInteger),
        sa.Column("body", JSON_VALUE),
        sa.Column("questions", JSON_VALUE, nullable=False),
        sa.Column("ceiling_usd", sa.Double, nullable=False),
        sa.Column("counted_tokens", sa.BigInteger, nullable=False),
        sa.Column("most_input", sa.BigInteger, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("tries", sa.BigInteger, nullable=False),
        sa.Column("code", sa.Text),
        sa.Column("cost", sa.BigInteger),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("request", sa.Text),
        sa.Column("number", sa.Text),
        sa.PrimaryKeyConstraint("key", name="pk_batch_lines"),
    )
    op.create_index("ix_batch_lines_job_state", "batch_lines", ["job", "state"])
    op.create_index("ix_batch_lines_project_state_model", "batch_lines", ["project", "state", "model"])
    op.create_index("ix_batch_lines_project_task", "batch_lines", ["project", "task"])
    op.create_table(
        "batch_tasks",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("task", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("questions", sa.Text, nullable=False),
        sa.Column("exploration", sa.Text),
        sa.Column("drawn", JSON_VALUE, nullable=False),
        sa.Column("plan", JSON_VALUE, nullable=False),
        sa.Column("asked", JSON_VALUE, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("project", "task", name="pk_batch_tasks"),
    )


def _answers_and_money() -> None:
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
        sa.Column("version", sa.Text),
        sa.Column("confidences", JSON_VALUE),
        sa.Column("cut_off", sa.Boolean, server_default=sa.false(), nullable=False),
        sa.Column("project", sa.Text),
        sa.Column("task", sa.BigInteger),
        sa.PrimaryKeyConstraint("key", name="pk_answers"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_answers_task", "answers", ["task"])
    op.create_table(
        "answer_tasks",
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("task", sa.BigInteger, autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("key", "project", "task", name="pk_answer_tasks"),
    )
    op.create_index("ix_answer_tasks_project_task", "answer_tasks", ["project", "task"])
    op.create_table(
        "claims",
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
        sa.Column("call", sa.BigInteger),
        sa.PrimaryKeyConstraint("key", name="pk_claims"),
    )
    op.create_table(
        "calls",
        sa.Column("id", ROW_ID, nullable=False),
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
        sa.Column("tasks", sa.Integer, server_default="1", nullable=False),
        sa.Column("cached_tokens", sa.BigInteger),
        sa.Column("purse", sa.Text),
        sa.PrimaryKeyConstraint("id", name="pk_calls"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_calls_expires_at", "calls", ["expires_at"], **_where("state = 'reserved'"))
    op.create_index(
        "ix_calls_packs",
        "calls",
        ["project", "model", "state", "error_code", "tasks", "cost"],
        **_where("tasks > 1"),
    )
    op.create_index(
        "ix_calls_project_model_state_error_code_seconds_cost",
        "calls",
        ["project", "model", "state", "error_code", "seconds", "cost"],
    )
    op.create_index("ix_calls_project_task", "calls", ["project", "task"])
    op.create_table(
        "call_shares",
        sa.Column("call", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("task", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("share", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("call", "project", "task", name="pk_call_shares"),
    )
    op.create_index("ix_call_shares_project_task", "call_shares", ["project", "task"])
    op.create_table(
        "pack_checks",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("control", sa.Text, nullable=False),
        sa.Column("epoch", sa.Text, nullable=False),
        sa.Column("arm", sa.Text, nullable=False),
        sa.Column("task", sa.BigInteger, nullable=False),
        sa.Column("agreed", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_pack_checks"),
        sa.UniqueConstraint(
            "project", "control", "epoch", "arm", "task", name="uq_pack_checks_project_control_epoch_arm_task"
        ),
    )
    op.create_index("ix_pack_checks_project_task", "pack_checks", ["project", "task"])
    op.create_table(
        "accounts",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("scope", sa.Text, nullable=False),
        sa.Column("spent", sa.BigInteger, nullable=False),
        sa.Column("reserved", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("project", "scope", name="pk_accounts"),
    )
    op.create_table(
        "readiness",
        sa.Column("id", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("checked_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_readiness"),
    )


def _recounts_and_certificates() -> None:
    op.create_table(
        "countings",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("number", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("counted", sa.BigInteger, nullable=False),
        sa.Column("labels", sa.BigInteger, nullable=False),
        sa.Column("scores", sa.BigInteger, nullable=False),
        sa.Column("score_before", sa.Double, nullable=False),
        sa.Column("score_after", sa.Double, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("project", "number", name="pk_countings"),
    )
    op.create_table(
        "recounts",
        sa.Column("round_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("task", sa.BigInteger, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("score", sa.Double, nullable=False),
        sa.Column("label_changed", sa.Boolean, nullable=False),
        sa.Column("delivered", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("round_id", "number", name="pk_recounts"),
    )
    op.create_index("ix_recounts_project_delivered_task", "recounts", ["project", "delivered", "task"])
    op.create_index("ix_recounts_project_task", "recounts", ["project", "task"])
    op.create_table(
        "recount_checks",
        sa.Column("round_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("task", sa.BigInteger, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("score", sa.Double, nullable=False),
        sa.Column("confirmed", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("round_id", name="pk_recount_checks"),
    )
    op.create_index("ix_recount_checks_project_task", "recount_checks", ["project", "task"])
    op.create_table(
        "recount_looks",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("looked_at", sa.Double, nullable=False),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("counted", sa.BigInteger, nullable=False),
        sa.Column("labels", sa.BigInteger, nullable=False),
        sa.Column("score_change", sa.Double, nullable=False),
        sa.Column("by_hand", sa.Boolean, nullable=False),
        sa.PrimaryKeyConstraint("project", name="pk_recount_looks"),
    )
    op.create_table(
        "further_votes",
        sa.Column("round_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("task", sa.BigInteger, nullable=False),
        sa.Column("vote", sa.Text),
        sa.Column("confidence", sa.Double),
        sa.Column("cost_usd", sa.Double, nullable=False),
        sa.Column("purpose", sa.Text, nullable=False),
        sa.Column("taught", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("round_id", "model", name="pk_further_votes"),
    )
    op.create_index("ix_further_votes_project_task", "further_votes", ["project", "task"])
    op.create_table(
        "certificates",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("number", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("issued_at", sa.Double, nullable=False),
        sa.Column("counting", sa.BigInteger, nullable=False),
        sa.Column("through", sa.BigInteger, nullable=False),
        sa.Column("labels", sa.BigInteger, nullable=False),
        sa.Column("labels_hash", sa.Text, nullable=False),
        sa.Column("evidence", JSON_VALUE, nullable=False),
        sa.Column("file_hash", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("project", "number", name="pk_certificates"),
    )


def _learning() -> None:
    op.create_table(
        "events",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("sequence", sa.BigInteger, autoincrement=False, nullable=False),
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
    op.create_table(
        "bases",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("control", sa.Text, nullable=False),
        sa.Column("epoch", sa.Text, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("events", sa.BigInteger, nullable=False),
        sa.Column("state", sa.LargeBinary, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("project", "control", "epoch", name="pk_bases"),
    )
    op.create_table(
        "contexts",
        sa.Column("round_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("context", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("round_id", name="pk_contexts"),
    )
    op.create_table(
        "snapshots",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("control", sa.Text, nullable=False),
        sa.Column("epoch", sa.Text, nullable=False),
        sa.Column("sequence", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("state", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("project", "control", "epoch", "sequence", name="pk_snapshots"),
    )
    op.create_table(
        "drift_tests",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("control", sa.Text, nullable=False),
        sa.Column("epoch", sa.Text, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("tests", JSON_VALUE, nullable=False),
        sa.Column("updated_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("project", "control", "epoch", name="pk_drift_tests"),
    )
    op.create_table(
        "reliabilities",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("control", sa.Text, nullable=False),
        sa.Column("number", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("accuracies", JSON_VALUE, nullable=False),
        sa.Column("annotations", sa.BigInteger, nullable=False),
        sa.Column("applied", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("project", "control", "number", name="pk_reliabilities"),
    )
    op.create_table(
        "model_rates",
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("state", JSON_VALUE, nullable=False),
        sa.Column("updated_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("model", name="pk_model_rates"),
    )


def _people_and_projects() -> None:
    op.create_table(
        "annotations",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("annotation_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("task", sa.BigInteger),
        sa.Column("updated_at", sa.Text, nullable=False),
        sa.Column("labels", JSON_VALUE, nullable=False),
        sa.Column("ground_truth", sa.Boolean, nullable=False),
        sa.Column("teaches", sa.Boolean, nullable=False),
        sa.Column("origin", sa.Text),
        sa.Column("prediction_shown", sa.Boolean, nullable=False),
        sa.Column("completed_by", sa.BigInteger),
        sa.Column("deleted", sa.Boolean, nullable=False),
        sa.Column("received_at", sa.Double, nullable=False),
        sa.Column("withdrawn", sa.Boolean, nullable=False),
        sa.Column("lead_time", sa.Double),
        sa.Column("originals", JSON_VALUE),
        sa.PrimaryKeyConstraint("project", "annotation_id", name="pk_annotations"),
    )
    op.create_index("ix_annotations_project_task", "annotations", ["project", "task"])
    op.create_table(
        "accepted",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("task", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("annotation_id", sa.BigInteger),
        sa.Column("labels", JSON_VALUE, nullable=False),
        sa.Column("score", sa.Double, nullable=False),
        sa.Column("certified", sa.Boolean, nullable=False),
        sa.Column("accepted_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("project", "task", name="pk_accepted"),
    )
    op.create_table(
        "lessons",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("control", sa.Text, nullable=False),
        sa.Column("epoch", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("lesson", JSON_VALUE, nullable=False),
        sa.Column("updated_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("project", "control", "epoch", name="pk_lessons"),
    )
    op.create_table(
        "withdrawals",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("project", sa.Text),
        sa.Column("task", sa.BigInteger),
        sa.Column("annotator", sa.BigInteger),
        sa.Column("since", sa.Double),
        sa.Column("until", sa.Double),
        sa.Column("withdrawn", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_withdrawals"),
    )
    op.create_table(
        "projects",
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("extra_params", JSON_VALUE),
        sa.Column("label_config", sa.Text),
        sa.Column("instructions", sa.Text),
        sa.Column("model_version", sa.Text),
        sa.Column("updated_at", sa.Double, nullable=False),
        sa.Column("title", sa.Text),
        sa.Column("hostname", sa.Text),
        sa.Column("task_number", sa.BigInteger),
        sa.Column("predicted", JSON_VALUE),
        sa.Column("feedback_refused", sa.BigInteger, server_default="0", nullable=False),
        sa.Column("audited_after", sa.BigInteger),
        sa.PrimaryKeyConstraint("key", name="pk_projects"),
    )
    op.create_table(
        "instructions",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("begun_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_instructions"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_instructions_project", "instructions", ["project"])
    op.create_table(
        "schemes",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("control", sa.Text, nullable=False),
        sa.Column("epoch", sa.Text, nullable=False),
        sa.Column("label_config", sa.Text, nullable=False),
        sa.Column("embedder", sa.Text, nullable=False),
        sa.Column("source", sa.Text),
        sa.Column("labels", JSON_VALUE, nullable=False),
        sa.Column("parts", JSON_VALUE, nullable=False),
        sa.Column("instructions", sa.Text),
        sa.Column("beside", sa.Boolean, nullable=False),
        sa.Column("undo", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_schemes"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_schemes_project_control", "schemes", ["project", "control"])
    op.create_table(
        "carryings",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("control", sa.Text, nullable=False),
        sa.Column("epoch", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("fresh", sa.Boolean, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("project", "control", "epoch", name="pk_carryings"),
    )
    op.create_table(
        "alerts",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("code", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("began_at", sa.Double, nullable=False),
        sa.Column("seen_at", sa.Double, nullable=False),
        sa.Column("posted_at", sa.Double),
        sa.Column("over_at", sa.Double),
        sa.PrimaryKeyConstraint("project", "code", "subject", name="pk_alerts"),
    )


def _rounds_and_tasks() -> None:
    op.create_table(
        "rounds",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("task", sa.BigInteger, nullable=False),
        sa.Column("control", sa.Text, nullable=False),
        sa.Column("question", sa.Text, nullable=False),
        sa.Column("epoch", sa.Text, nullable=False),
        sa.Column("plan", sa.LargeBinary, nullable=False),
        sa.Column("votes", JSON_VALUE, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("score", sa.Double, nullable=False),
        sa.Column("cost_usd", sa.Double, nullable=False),
        sa.Column("full_cost_usd", sa.Double, nullable=False),
        sa.Column("bounded_usd", sa.Double, server_default=sa.text("0"), nullable=False),
        sa.Column("reused", sa.Double, server_default=sa.text("0"), nullable=False),
        sa.Column("reused_usd", sa.Double, server_default=sa.text("0"), nullable=False),
        sa.Column("carried_from", sa.BigInteger),
        sa.Column("audit", sa.Boolean, nullable=False),
        sa.Column("taught", sa.Text),
        sa.Column("taught_by", sa.Text),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("human", sa.Text),
        sa.Column("confirmed", sa.Double),
        sa.Column("pruned", sa.Boolean, server_default=sa.false(), nullable=False),
        sa.Column("missing", JSON_VALUE),
        sa.Column("planned_at", sa.Double, server_default=sa.text("0"), nullable=False),
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
    op.create_index("ix_rounds_incomplete", "rounds", ["project", "task"], **_where("missing IS NOT NULL"))
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
            "bounded_usd",
            "reused",
            "reused_usd",
            "created_at",
            "planned_at",
            "carried_from",
        ],
    )
    op.create_table(
        "votes",
        sa.Column("round_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("audit", sa.Boolean, nullable=False),
        sa.Column("voted", sa.Boolean),
        sa.Column("failure", sa.Text),
        sa.Column("agreed", sa.Double),
        sa.Column("confirmed", sa.Double),
        sa.Column("examples", sa.Integer),
        sa.PrimaryKeyConstraint("round_id", "model", name="pk_votes"),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "ix_votes_project_examples_model_confirmed",
        "votes",
        ["project", "examples", "model", "confirmed"],
        **_where("examples IS NOT NULL"),
    )
    op.create_index(
        "ix_votes_project_model_audit_voted_agreed_confirmed",
        "votes",
        ["project", "model", "audit", "voted", "agreed", "confirmed"],
    )
    op.create_table(
        "blind_tasks",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("control", sa.Text, nullable=False),
        sa.Column("epoch", sa.Text, nullable=False),
        sa.Column("task", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("round_id", sa.BigInteger, nullable=False),
        sa.Column("cohort", sa.BigInteger, nullable=False),
        sa.Column("place", sa.BigInteger, nullable=False),
        sa.Column("score", sa.Double, nullable=False),
        sa.Column("counting", sa.Text, nullable=False),
        sa.Column("verdicts", JSON_VALUE, nullable=False),
        sa.Column("answers", sa.Text, nullable=False),
        sa.Column("reward", sa.Double),
        sa.Column("closed_through", sa.BigInteger),
        sa.Column("recount", sa.BigInteger, server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("project", "control", "epoch", "task", name="pk_blind_tasks"),
    )
    op.create_index("ix_blind_tasks_project_task", "blind_tasks", ["project", "task"])
    op.create_table(
        "blind_queues",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("control", sa.Text, nullable=False),
        sa.Column("epoch", sa.Text, nullable=False),
        sa.Column("recount", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("project", "control", "epoch", name="pk_blind_queues"),
    )
    op.create_table(
        "failed_tasks",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("task", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("code", sa.Text, nullable=False),
        sa.Column("failed_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("project", "task", name="pk_failed_tasks"),
    )
    op.create_table(
        "deleted_tasks",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("task", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("deleted_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("project", "task", name="pk_deleted_tasks"),
    )
    op.create_table(
        "tasks_to_forget",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("task", sa.BigInteger, autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("project", "task", name="pk_tasks_to_forget"),
    )
    op.create_table(
        "example_texts",
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("task", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("control", sa.Text, nullable=False),
        sa.Column("question", sa.Text, nullable=False),
        sa.Column("texts", JSON_VALUE, nullable=False),
        sa.PrimaryKeyConstraint("project", "task", "control", name="pk_example_texts"),
    )
