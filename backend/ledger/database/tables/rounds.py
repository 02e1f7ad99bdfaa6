"""The tables of rounds and of tasks without one."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    false,
)

from backend.ledger.database.packing import PackedJson
from backend.ledger.database.tables.schema import JSON_VALUE, ROW_ID, metadata, where

rounds = Table(
    "rounds",
    metadata,
    Column("id", ROW_ID, primary_key=True),
    Column("project", Text, nullable=False),
    Column("task", BigInteger, nullable=False),
    Column("control", Text, nullable=False),
    Column("question", Text, nullable=False),
    Column("epoch", Text, nullable=False),
    Column("plan", PackedJson, nullable=False),
    Column("votes", JSON_VALUE, nullable=False),
    Column("label", Text, nullable=False),
    Column("score", Double, nullable=False),
    Column("cost_usd", Double, nullable=False),
    Column("full_cost_usd", Double, nullable=False),
    Column("audit", Boolean, nullable=False),
    Column("taught", Text),
    Column("taught_by", Text),
    Column("created_at", Double, nullable=False),
    Column("human", Text),
    Column("confirmed", Double),
    Column("pruned", Boolean, nullable=False, server_default=false()),
    UniqueConstraint("project", "task", "control", "question", "epoch"),
    Index(None, "project", "id"),
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
        "created_at",
    ),
    sqlite_autoincrement=True,  # events refer to rounds by id, so ids must not be reused
)

votes = Table(
    "votes",
    metadata,
    Column("round_id", BigInteger, primary_key=True, autoincrement=False),
    Column("model", Text, primary_key=True),
    Column("project", Text, nullable=False),
    Column("audit", Boolean, nullable=False),
    Column("voted", Boolean, nullable=False),
    Column("agreed", Double),
    Column("confirmed", Double),
    Column("examples", Integer),
    Index(None, "project", "model", "audit", "voted", "agreed", "confirmed"),
    Index(None, "project", "examples", "model", "confirmed", **where("examples IS NOT NULL")),
    sqlite_with_rowid=False,  # else SQLite holds every key twice
)

blind_tasks = Table(
    "blind_tasks",
    metadata,
    Column("project", Text, primary_key=True),
    Column("control", Text, primary_key=True),
    Column("epoch", Text, primary_key=True),
    Column("task", BigInteger, primary_key=True, autoincrement=False),
    Column("round_id", BigInteger, nullable=False),
    Column("cohort", BigInteger, nullable=False),
    Column("place", BigInteger, nullable=False),
    Column("score", Double, nullable=False),
    Column("counting", Text, nullable=False),
    Column("verdicts", JSON_VALUE, nullable=False),
    Column("answers", Text, nullable=False),
    Column("reward", Double),
    Column("closed_through", BigInteger),
    Column("recount", BigInteger, nullable=False, server_default="0"),
    Index(None, "project", "task"),
)

blind_queues = Table(
    "blind_queues",
    metadata,
    Column("project", Text, primary_key=True),
    Column("control", Text, primary_key=True),
    Column("epoch", Text, primary_key=True),
    Column("recount", BigInteger, nullable=False),
)

failed_tasks = Table(
    "failed_tasks",
    metadata,
    Column("project", Text, primary_key=True),
    Column("task", BigInteger, primary_key=True, autoincrement=False),
    Column("code", Text, nullable=False),
    Column("failed_at", Double, nullable=False),
)

deleted_tasks = Table(
    "deleted_tasks",
    metadata,
    Column("project", Text, primary_key=True),
    Column("task", BigInteger, primary_key=True, autoincrement=False),
    Column("deleted_at", Double, nullable=False),
)

tasks_to_forget = Table(
    "tasks_to_forget",
    metadata,
    Column("project", Text, primary_key=True),
    Column("task", BigInteger, primary_key=True, autoincrement=False),
)

example_texts = Table(
    "example_texts",
    metadata,
    Column("project", Text, primary_key=True),
    Column("task", BigInteger, primary_key=True, autoincrement=False),
    Column("control", Text, primary_key=True),
    Column("question", Text, nullable=False),
    Column("texts", JSON_VALUE, nullable=False),
)
