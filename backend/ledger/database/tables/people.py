"""The tables of what people said."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Double, Index, Table, Text

from backend.ledger.database.tables.schema import JSON_VALUE, ROW_ID, metadata

human_annotations = Table(
    "annotations",
    metadata,
    Column("project", Text, primary_key=True),
    Column("annotation_id", BigInteger, primary_key=True, autoincrement=False),
    Column("task", BigInteger),
    Column("updated_at", Text, nullable=False),
    Column("labels", JSON_VALUE, nullable=False),
    Column("ground_truth", Boolean, nullable=False),
    Column("teaches", Boolean, nullable=False),
    Column("origin", Text),
    Column("prediction_shown", Boolean, nullable=False),
    Column("completed_by", BigInteger),
    Column("deleted", Boolean, nullable=False),
    Column("received_at", Double, nullable=False),
    Column("withdrawn", Boolean, nullable=False),
    Column("lead_time", Double),
    Index(None, "project", "task"),
)

accepted = Table(
    "accepted",
    metadata,
    Column("project", Text, primary_key=True),
    Column("task", BigInteger, primary_key=True, autoincrement=False),
    Column("annotation_id", BigInteger),
    Column("labels", JSON_VALUE, nullable=False),
    Column("score", Double, nullable=False),
    Column("certified", Boolean, nullable=False),
    Column("accepted_at", Double, nullable=False),
)

withdrawals = Table(
    "withdrawals",
    metadata,
    Column("id", ROW_ID, primary_key=True),
    Column("project", Text),
    Column("task", BigInteger),
    Column("annotator", BigInteger),
    Column("since", Double),
    Column("until", Double),
    Column("withdrawn", Boolean, nullable=False),
    Column("created_at", Double, nullable=False),
)
