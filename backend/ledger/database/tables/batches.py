"""The tables of providers' batches: jobs, their lines, and the tasks that wait for them."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Double, Index, Table, Text

from backend.ledger.database.tables.schema import JSON_VALUE, metadata

batch_jobs = Table(
    "batch_jobs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("project", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("leased_until", Double, nullable=False),
    Column("provider_id", Text),
    Column("files", JSON_VALUE, nullable=False),
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

batch_lines = Table(
    "batch_lines",
    metadata,
    Column("key", Text, primary_key=True),
    Column("project", Text, nullable=False),
    Column("task", BigInteger, nullable=False),
    Column("model", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("job", Text),
    Column("call", BigInteger),
    Column("body", JSON_VALUE),
    Column("questions", JSON_VALUE, nullable=False),
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

batch_tasks = Table(
    "batch_tasks",
    metadata,
    Column("project", Text, primary_key=True),
    Column("task", BigInteger, primary_key=True, autoincrement=False),
    Column("questions", Text, nullable=False),
    Column("exploration", Text),
    Column("drawn", JSON_VALUE, nullable=False),
    Column("plan", JSON_VALUE, nullable=False),
    Column("asked", JSON_VALUE, nullable=False),
    Column("created_at", Double, nullable=False),
)
