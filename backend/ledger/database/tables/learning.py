"""The tables of what is learnt: events, their bases, contexts, snapshots, and what follows from them."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Double, Index, LargeBinary, Table, Text

from backend.ledger.database.tables.schema import JSON_VALUE, metadata

events = Table(
    "events",
    metadata,
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

bases = Table(
    "bases",
    metadata,
    Column("project", Text, primary_key=True),
    Column("control", Text, primary_key=True),
    Column("epoch", Text, primary_key=True),
    Column("sequence", BigInteger, nullable=False),
    Column("events", BigInteger, nullable=False),
    Column("state", LargeBinary, nullable=False),
    Column("digest", Text, nullable=False),
    Column("created_at", Double, nullable=False),
)

contexts = Table(
    "contexts",
    metadata,
    Column("round_id", BigInteger, primary_key=True, autoincrement=False),
    Column("context", LargeBinary, nullable=False),
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("project", Text, primary_key=True),
    Column("control", Text, primary_key=True),
    Column("epoch", Text, primary_key=True),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("state", LargeBinary, nullable=False),
    Column("created_at", Double, nullable=False),
)

drift_tests = Table(
    "drift_tests",
    metadata,
    Column("project", Text, primary_key=True),
    Column("control", Text, primary_key=True),
    Column("epoch", Text, primary_key=True),
    Column("sequence", BigInteger, nullable=False),
    Column("tests", JSON_VALUE, nullable=False),
    Column("updated_at", Double, nullable=False),
)

reliabilities = Table(
    "reliabilities",
    metadata,
    Column("project", Text, primary_key=True),
    Column("control", Text, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("accuracies", JSON_VALUE, nullable=False),
    Column("annotations", BigInteger, nullable=False),
    Column("applied", Boolean, nullable=False),
    Column("created_at", Double, nullable=False),
)

model_rates = Table(
    "model_rates",
    metadata,
    Column("model", Text, primary_key=True),
    Column("state", JSON_VALUE, nullable=False),
    Column("updated_at", Double, nullable=False),
)
