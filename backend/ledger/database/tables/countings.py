"""The tables of labels after the first: recounts, further votes, certificates."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Double, Index, Table, Text

from backend.ledger.database.tables.schema import JSON_VALUE, metadata

countings = Table(
    "countings",
    metadata,
    Column("project", Text, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("reason", Text, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("counted", BigInteger, nullable=False),
    Column("labels", BigInteger, nullable=False),
    Column("scores", BigInteger, nullable=False),
    Column("created_at", Double, nullable=False),
)

recounts = Table(
    "recounts",
    metadata,
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

recount_checks = Table(
    "recount_checks",
    metadata,
    Column("round_id", BigInteger, primary_key=True, autoincrement=False),
    Column("project", Text, nullable=False),
    Column("task", BigInteger, nullable=False),
    Column("label", Text, nullable=False),
    Column("score", Double, nullable=False),
    Column("confirmed", Double, nullable=False),
    Index(None, "project", "task"),
)

recount_looks = Table(
    "recount_looks",
    metadata,
    Column("project", Text, primary_key=True),
    Column("looked_at", Double, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("counted", BigInteger, nullable=False),
    Column("labels", BigInteger, nullable=False),
    Column("score_change", Double, nullable=False),
    Column("by_hand", Boolean, nullable=False),
)

further_votes = Table(
    "further_votes",
    metadata,
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

certificates = Table(
    "certificates",
    metadata,
    Column("project", Text, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("issued_at", Double, nullable=False),
    Column("counting", BigInteger, nullable=False),
    Column("through", BigInteger, nullable=False),
    Column("labels", BigInteger, nullable=False),
    Column("labels_hash", Text, nullable=False),
    Column("evidence", JSON_VALUE, nullable=False),
    Column("file_hash", Text, nullable=False),
)
