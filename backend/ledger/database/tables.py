"""The tables of the ledger."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    false,
    literal_column,
    text,
)
from sqlalchemy.schema import SchemaItem

from backend.ledger.database.packing import PackedJson

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

# SQLite generates ids only in a column declared INTEGER, which holds 64 bits there.
_ROW_ID = BigInteger().with_variant(Integer, "sqlite")
_JSON_VALUE = JSON(none_as_null=True)


def _table(name: str, *items: SchemaItem, **options: Any) -> Table:
    return Table(name, metadata, *items, **options)


def _where(condition: str) -> dict[str, Any]:
    """Restrict an index to the rows that anybody looks for with it."""
    return {"sqlite_where": text(condition), "postgresql_where": text(condition)}


batch_jobs = _table(
    "batch_jobs",
    Column("id", Text, primary_key=True),
    Column("project", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("leased_until", Double, nullable=False),
    Column("provider_id", Text),
    Column("files", _JSON_VALUE, nullable=False),
    Column("lines", BigInteger, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("token_limit", BigInteger),
    Column("cancelled", Boolean, nullable=False),
    Column("code", Text),
    Column("created_at", Double, nullable=False),
    Column("sent_at", Double),
    Column("due_at", Double),
    Column("ended_at", Double),
    Index(None, "state", "project"),
    Index(None, "model", "created_at"),
)

batch_lines = _table(
    "batch_lines",
    Column("key", Text, primary_key=True),
    Column("project", Text, nullable=False),
    Column("task", BigInteger, nullable=False),
    Column("model", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("job", Text),
    Column("call", BigInteger),
    Column("body", _JSON_VALUE),
    Column("questions", _JSON_VALUE, nullable=False),
    Column("ceiling_usd", Double, nullable=False),
    Column("counted_tokens", BigInteger, nullable=False),
    Column("most_input", BigInteger, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("tries", BigInteger, nullable=False),
    Column("code", Text),
    Column("cost", BigInteger),
    Column("created_at", Double, nullable=False),
    Column("request", Text),
    Column("number", Text),
    Index(None, "project", "state", "model"),
    Index(None, "job", "state"),
    Index(None, "project", "task"),
)

batch_tasks = _table(
    "batch_tasks",
    Column("project", Text, primary_key=True),
    Column("task", BigInteger, primary_key=True, autoincrement=False),
    Column("questions", Text, nullable=False),
    Column("exploration", Text),
    Column("drawn", _JSON_VALUE, nullable=False),
    Column("plan", _JSON_VALUE, nullable=False),
    Column("asked", _JSON_VALUE, nullable=False),
    Column("created_at", Double, nullable=False),
)

RESERVED: ColumnElement[str] = literal_column("'reserved'")
"""The state of a running call. A partial index serves only queries that name it in their text."""

answers = _table(
    "answers",
    Column("key", Text, primary_key=True),
    Column("model", Text, nullable=False),
    Column("content", Text, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cost", BigInteger, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("version", Text),
    Column("confidences", _JSON_VALUE),
    Column("cut_off", Boolean, nullable=False, server_default=false()),
    Column("project", Text),
    Column("task", BigInteger),
    Index(None, "task"),
    sqlite_with_rowid=False,  # else SQLite holds every key twice
)

answer_tasks = _table(
    "answer_tasks",
    Column("key", Text, primary_key=True),
    Column("project", Text, primary_key=True),
    Column("task", BigInteger, primary_key=True, autoincrement=False),
    Index(None, "project", "task"),
)

claims = _table(
    "claims",
    Column("key", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("expires_at", Double, nullable=False),
    Column("call", BigInteger),
)

calls = _table(
    "calls",
    Column("id", _ROW_ID, primary_key=True),
    Column("project", Text, nullable=False),
    Column("task", BigInteger, nullable=False),
    Column("model", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("reserved", BigInteger, nullable=False),
    Column("cost", BigInteger),
    Column("counted_tokens", BigInteger, nullable=False),
    Column("input_tokens", BigInteger),
    Column("output_tokens", BigInteger),
    Column("error_code", Text),
    Column("seconds", Double),
    Column("day", Text, nullable=False),
    Column("expires_at", Double, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("tasks", Integer, nullable=False, server_default="1"),
    Column("cached_tokens", BigInteger),
    Column("purse", Text),
    Index(None, "expires_at", **_where("state = 'reserved'")),
    Index(None, "project", "model", "state", "error_code", "seconds", "cost"),
    Index(None, "project", "task"),
    Index(
        "ix_calls_packs", "project", "model", "state", "error_code", "tasks", "cost", **_where("tasks > 1")
    ),
    sqlite_autoincrement=True,
)

call_shares = _table(
    "call_shares",
    Column("call", BigInteger, primary_key=True, autoincrement=False),
    Column("project", Text, primary_key=True),
    Column("task", BigInteger, primary_key=True, autoincrement=False),
    Column("share", Double, nullable=False),
    Index(None, "project", "task"),
)

pack_checks = _table(
    "pack_checks",
    Column("id", _ROW_ID, primary_key=True),
    Column("project", Text, nullable=False),
    Column("control", Text, nullable=False),
    Column("epoch", Text, nullable=False),
    Column("arm", Text, nullable=False),
    Column("task", BigInteger, nullable=False),
    Column("agreed", Boolean, nullable=False),
    Column("created_at", Double, nullable=False),
    UniqueConstraint("project", "control", "epoch", "arm", "task"),
    Index(None, "project", "task"),
)

accounts = _table(
    "accounts",
    Column("project", Text, primary_key=True),
    Column("scope", Text, primary_key=True),
    Column("spent", BigInteger, nullable=False),
    Column("reserved", BigInteger, nullable=False),
)

readiness = _table(
    "readiness",
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("checked_at", Double, nullable=False),
)

countings = _table(
    "countings",
    Column("project", Text, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("reason", Text, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("counted", BigInteger, nullable=False),
    Column("labels", BigInteger, nullable=False),
    Column("scores", BigInteger, nullable=False),
    Column("score_before", Double, nullable=False),
    Column("score_after", Double, nullable=False),
    Column("created_at", Double, nullable=False),
)

recounts = _table(
    "recounts",
    Column("round_id", BigInteger, primary_key=True, autoincrement=False),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("project", Text, nullable=False),
    Column("task", BigInteger, nullable=False),
    Column("label", Text, nullable=False),
    Column("score", Double, nullable=False),
    Column("label_changed", Boolean, nullable=False),
    Column("delivered", Boolean, nullable=False),
    Index(None, "project", "delivered", "task"),
    Index(None, "project", "task"),
)

recount_checks = _table(
    "recount_checks",
    Column("round_id", BigInteger, primary_key=True, autoincrement=False),
    Column("project", Text, nullable=False),
    Column("task", BigInteger, nullable=False),
    Column("label", Text, nullable=False),
    Column("score", Double, nullable=False),
    Column("confirmed", Double, nullable=False),
    Index(None, "project", "task"),
)

recount_looks = _table(
    "recount_looks",
    Column("project", Text, primary_key=True),
    Column("looked_at", Double, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("counted", BigInteger, nullable=False),
    Column("labels", BigInteger, nullable=False),
    Column("score_change", Double, nullable=False),
    Column("by_hand", Boolean, nullable=False),
)

further_votes = _table(
    "further_votes",
    Column("round_id", BigInteger, primary_key=True, autoincrement=False),
    Column("model", Text, primary_key=True),
    Column("project", Text, nullable=False),
    Column("task", BigInteger, nullable=False),
    Column("vote", Text),
    Column("confidence", Double),
    Column("cost_usd", Double, nullable=False),
    Column("purpose", Text, nullable=False),
    Column("taught", Boolean, nullable=False),
    Column("created_at", Double, nullable=False),
    Index(None, "project", "task"),
)

certificates = _table(
    "certificates",
    Column("project", Text, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("issued_at", Double, nullable=False),
    Column("counting", BigInteger, nullable=False),
    Column("through", BigInteger, nullable=False),
    Column("labels", BigInteger, nullable=False),
    Column("labels_hash", Text, nullable=False),
    Column("evidence", _JSON_VALUE, nullable=False),
    Column("file_hash", Text, nullable=False),
)

events = _table(
    "events",
    Column("project", Text, primary_key=True),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("control", Text, nullable=False),
    Column("epoch", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("round_id", BigInteger),
    Column("contribution", LargeBinary, nullable=False),
    Column("created_at", Double, nullable=False),
    Index(None, "project", "control", "epoch", "sequence"),
)

bases = _table(
    "bases",
    Column("project", Text, primary_key=True),
    Column("control", Text, primary_key=True),
    Column("epoch", Text, primary_key=True),
    Column("sequence", BigInteger, nullable=False),
    Column("events", BigInteger, nullable=False),
    Column("state", LargeBinary, nullable=False),
    Column("digest", Text, nullable=False),
    Column("created_at", Double, nullable=False),
)

contexts = _table(
    "contexts",
    Column("round_id", BigInteger, primary_key=True, autoincrement=False),
    Column("context", LargeBinary, nullable=False),
)

snapshots = _table(
    "snapshots",
    Column("project", Text, primary_key=True),
    Column("control", Text, primary_key=True),
    Column("epoch", Text, primary_key=True),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("state", LargeBinary, nullable=False),
    Column("created_at", Double, nullable=False),
)

drift_tests = _table(
    "drift_tests",
    Column("project", Text, primary_key=True),
    Column("control", Text, primary_key=True),
    Column("epoch", Text, primary_key=True),
    Column("sequence", BigInteger, nullable=False),
    Column("tests", _JSON_VALUE, nullable=False),
    Column("updated_at", Double, nullable=False),
)

reliabilities = _table(
    "reliabilities",
    Column("project", Text, primary_key=True),
    Column("control", Text, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("accuracies", _JSON_VALUE, nullable=False),
    Column("annotations", BigInteger, nullable=False),
    Column("applied", Boolean, nullable=False),
    Column("created_at", Double, nullable=False),
)

model_rates = _table(
    "model_rates",
    Column("model", Text, primary_key=True),
    Column("state", _JSON_VALUE, nullable=False),
    Column("updated_at", Double, nullable=False),
)

human_annotations = _table(
    "annotations",
    Column("project", Text, primary_key=True),
    Column("annotation_id", BigInteger, primary_key=True, autoincrement=False),
    Column("task", BigInteger),
    Column("updated_at", Text, nullable=False),
    Column("labels", _JSON_VALUE, nullable=False),
    Column("ground_truth", Boolean, nullable=False),
    Column("teaches", Boolean, nullable=False),
    Column("origin", Text),
    Column("prediction_shown", Boolean, nullable=False),
    Column("completed_by", BigInteger),
    Column("deleted", Boolean, nullable=False),
    Column("received_at", Double, nullable=False),
    Column("withdrawn", Boolean, nullable=False),
    Column("lead_time", Double),
    Column("originals", _JSON_VALUE),
    Index(None, "project", "task"),
)

accepted = _table(
    "accepted",
    Column("project", Text, primary_key=True),
    Column("task", BigInteger, primary_key=True, autoincrement=False),
    Column("annotation_id", BigInteger),
    Column("labels", _JSON_VALUE, nullable=False),
    Column("score", Double, nullable=False),
    Column("certified", Boolean, nullable=False),
    Column("accepted_at", Double, nullable=False),
)

lessons = _table(
    "lessons",
    Column("project", Text, primary_key=True),
    Column("control", Text, primary_key=True),
    Column("epoch", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("lesson", _JSON_VALUE, nullable=False),
    Column("updated_at", Double, nullable=False),
)

withdrawals = _table(
    "withdrawals",
    Column("id", _ROW_ID, primary_key=True),
    Column("project", Text),
    Column("task", BigInteger),
    Column("annotator", BigInteger),
    Column("since", Double),
    Column("until", Double),
    Column("withdrawn", Boolean, nullable=False),
    Column("created_at", Double, nullable=False),
)

projects = _table(
    "projects",
    Column("key", Text, primary_key=True),
    Column("sequence", BigInteger, nullable=False),
    Column("extra_params", _JSON_VALUE),
    Column("label_config", Text),
    Column("instructions", Text),
    Column("model_version", Text),
    Column("updated_at", Double, nullable=False),
    Column("title", Text),
    Column("hostname", Text),
    Column("task_number", BigInteger),
    Column("predicted", _JSON_VALUE),
    Column("feedback_refused", BigInteger, nullable=False, server_default="0"),
    Column("changed_at", Text),
)

instructions = _table(
    "instructions",
    Column("id", _ROW_ID, primary_key=True),
    Column("project", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("begun_at", Double, nullable=False),
    Index(None, "project"),
    sqlite_autoincrement=True,
)

schemes = _table(
    "schemes",
    Column("id", _ROW_ID, primary_key=True),
    Column("project", Text, nullable=False),
    Column("control", Text, nullable=False),
    Column("epoch", Text, nullable=False),
    Column("label_config", Text, nullable=False),
    Column("embedder", Text, nullable=False),
    Column("source", Text),
    Column("labels", _JSON_VALUE, nullable=False),
    Column("parts", _JSON_VALUE, nullable=False),
    Column("instructions", Text),
    Column("beside", Boolean, nullable=False),
    Column("undo", Boolean, nullable=False),
    Column("created_at", Double, nullable=False),
    Index(None, "project", "control"),
    sqlite_autoincrement=True,
)

carryings = _table(
    "carryings",
    Column("project", Text, primary_key=True),
    Column("control", Text, primary_key=True),
    Column("epoch", Text, primary_key=True),
    Column("source", Text, nullable=False),
    Column("fresh", Boolean, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("number", BigInteger, nullable=False),
)

alerts = _table(
    "alerts",
    Column("project", Text, primary_key=True),
    Column("code", Text, primary_key=True),
    Column("subject", Text, primary_key=True),
    Column("began_at", Double, nullable=False),
    Column("seen_at", Double, nullable=False),
    Column("posted_at", Double),
    Column("over_at", Double),
)

rounds = _table(
    "rounds",
    Column("id", _ROW_ID, primary_key=True),
    Column("project", Text, nullable=False),
    Column("task", BigInteger, nullable=False),
    Column("control", Text, nullable=False),
    Column("question", Text, nullable=False),
    Column("epoch", Text, nullable=False),
    Column("plan", PackedJson, nullable=False),
    Column("votes", _JSON_VALUE, nullable=False),
    Column("label", Text, nullable=False),
    Column("score", Double, nullable=False),
    Column("cost_usd", Double, nullable=False),
    Column("full_cost_usd", Double, nullable=False),
    Column("bounded_usd", Double, nullable=False, server_default=text("0")),
    Column("reused", Double, nullable=False, server_default=text("0")),
    Column("reused_usd", Double, nullable=False, server_default=text("0")),
    Column("carried_from", BigInteger),
    Column("audit", Boolean, nullable=False),
    Column("audited", Boolean, nullable=False),
    Column("taught", Text),
    Column("taught_by", Text),
    Column("created_at", Double, nullable=False),
    Column("human", Text),
    Column("confirmed", Double),
    Column("pruned", Boolean, nullable=False, server_default=false()),
    Column("missing", _JSON_VALUE),
    Column("planned_at", Double, nullable=False, server_default=text("0")),
    UniqueConstraint("project", "task", "control", "question", "epoch"),
    Index(None, "project", "id"),
    Index("ix_rounds_incomplete", "project", "task", **_where("missing IS NOT NULL")),
    Index(
        "ix_rounds_unaudited",
        "project",
        "task",
        sqlite_where=text("audited = 0"),
        postgresql_where=text("NOT audited"),
    ),
    # A row takes kilobytes, so reports sum over all rounds by reading this index alone.
    Index(
        "ix_rounds_report",
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
    ),
    sqlite_autoincrement=True,  # events refer to rounds by id, so ids must not be reused
)

votes = _table(
    "votes",
    Column("round_id", BigInteger, primary_key=True, autoincrement=False),
    Column("model", Text, primary_key=True),
    Column("project", Text, nullable=False),
    Column("audit", Boolean, nullable=False),
    Column("voted", Boolean),
    Column("failure", Text),
    Column("agreed", Double),
    Column("confirmed", Double),
    Column("examples", Integer),
    Index(None, "project", "model", "audit", "voted", "agreed", "confirmed"),
    Index(None, "project", "examples", "model", "confirmed", **_where("examples IS NOT NULL")),
    sqlite_with_rowid=False,  # else SQLite holds every key twice
)

blind_tasks = _table(
    "blind_tasks",
    Column("project", Text, primary_key=True),
    Column("control", Text, primary_key=True),
    Column("epoch", Text, primary_key=True),
    Column("task", BigInteger, primary_key=True, autoincrement=False),
    Column("round_id", BigInteger, nullable=False),
    Column("cohort", BigInteger, nullable=False),
    Column("place", BigInteger, nullable=False),
    Column("score", Double, nullable=False),
    Column("counting", Text, nullable=False),
    Column("verdicts", _JSON_VALUE, nullable=False),
    Column("answers", Text, nullable=False),
    Column("reward", Double),
    Column("closed_through", BigInteger),
    Column("recount", BigInteger, nullable=False, server_default="0"),
    Index(None, "project", "task"),
)

blind_queues = _table(
    "blind_queues",
    Column("project", Text, primary_key=True),
    Column("control", Text, primary_key=True),
    Column("epoch", Text, primary_key=True),
    Column("recount", BigInteger, nullable=False),
)

failed_tasks = _table(
    "failed_tasks",
    Column("project", Text, primary_key=True),
    Column("task", BigInteger, primary_key=True, autoincrement=False),
    Column("code", Text, nullable=False),
    Column("failed_at", Double, nullable=False),
    Column("file", Text),
)

deleted_tasks = _table(
    "deleted_tasks",
    Column("project", Text, primary_key=True),
    Column("task", BigInteger, primary_key=True, autoincrement=False),
    Column("deleted_at", Double, nullable=False),
)

tasks_to_forget = _table(
    "tasks_to_forget",
    Column("project", Text, primary_key=True),
    Column("task", BigInteger, primary_key=True, autoincrement=False),
)

example_texts = _table(
    "example_texts",
    Column("project", Text, primary_key=True),
    Column("task", BigInteger, primary_key=True, autoincrement=False),
    Column("control", Text, primary_key=True),
    Column("question", Text, nullable=False),
    Column("texts", _JSON_VALUE, nullable=False),
)
