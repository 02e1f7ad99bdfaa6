"""The tables of projects: their settings as the server knows them, and their alarms."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Double, Table, Text

from backend.ledger.database.tables.schema import JSON_VALUE, metadata

projects = Table(
    "projects",
    metadata,
    Column("key", Text, primary_key=True),
    Column("sequence", BigInteger, nullable=False),
    Column("extra_params", JSON_VALUE),
    Column("label_config", Text),
    Column("model_version", Text),
    Column("updated_at", Double, nullable=False),
    Column("title", Text),
    Column("hostname", Text),
    Column("task_number", BigInteger),
    Column("predicted", JSON_VALUE),
    Column("feedback_refused", BigInteger, nullable=False, server_default="0"),
)

alerts = Table(
    "alerts",
    metadata,
    Column("project", Text, primary_key=True),
    Column("code", Text, primary_key=True),
    Column("subject", Text, primary_key=True),
    Column("began_at", Double, nullable=False),
    Column("seen_at", Double, nullable=False),
    Column("posted_at", Double),
    Column("over_at", Double),
)
