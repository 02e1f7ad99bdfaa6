"""The tables of answers, calls and money."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Double,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    literal_column,
)

from backend.ledger.database.tables.schema import JSON_VALUE, ROW_ID, metadata, where

RESERVED: ColumnElement[str] = literal_column("'reserved'")
"""The state of a running call. A partial index serves only queries that name it in their text."""

answers = Table(
    "answers",
    metadata,
    Column("key", Text, primary_key=True),
    Column("model", Text, nullable=False),
    Column("content", Text, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cost", BigInteger, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("version", Text),
    Column("confidences", JSON_VALUE),
    Column("project", Text),
    Column("task", BigInteger),
    Index(None, "task"),
    sqlite_with_rowid=False,  # else SQLite holds every key twice
)

answer_tasks = Table(
    "answer_tasks",
    metadata,
    Column("key", Text, primary_key=True),
    Column("project", Text, primary_key=True),
    Column("task", BigInteger, primary_key=True, autoincrement=False),
    Index(None, "project", "task"),
)

claims = Table(
    "claims",
    metadata,
    Column("key", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("expires_at", Double, nullable=False),
    Column("call", BigInteger),
)

calls = Table(
    "calls",
    metadata,
    Column("id", ROW_ID, primary_key=True),
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
    Index(None, "expires_at", **where("state = 'reserved'")),
    Index(None, "project", "model", "state", "error_code", "seconds", "cost"),
    Index(None, "project", "task"),
    Index(
        "ix_calls_packs",
        "project",
        "model",
        "state",
        "error_code",
        "tasks",
        "cost",
        **where("tasks > 1"),
    ),
    sqlite_autoincrement=True,
)

call_shares = Table(
    "call_shares",
    metadata,
    Column("call", BigInteger, primary_key=True, autoincrement=False),
    Column("project", Text, primary_key=True),
    Column("task", BigInteger, primary_key=True, autoincrement=False),
    Column("share", Double, nullable=False),
    Index(None, "project", "task"),
)

pack_checks = Table(
    "pack_checks",
    metadata,
    Column("id", ROW_ID, primary_key=True),
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

accounts = Table(
    "accounts",
    metadata,
    Column("project", Text, primary_key=True),
    Column("scope", Text, primary_key=True),
    Column("spent", BigInteger, nullable=False),
    Column("reserved", BigInteger, nullable=False),
)

readiness = Table(
    "readiness",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("checked_at", Double, nullable=False),
)
