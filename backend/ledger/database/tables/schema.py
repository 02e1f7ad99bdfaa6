"""What all tables of the ledger share: names of constraints, two types of columns, partial indices."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, BigInteger, Integer, MetaData, text

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

# SQLite generates ids only in a column declared INTEGER, which holds 64 bits there.
ROW_ID = BigInteger().with_variant(Integer, "sqlite")
JSON_VALUE = JSON(none_as_null=True)


def where(condition: str) -> dict[str, Any]:
    """Restrict an index to the rows that anybody looks for with it."""
    return {"sqlite_where": text(condition), "postgresql_where": text(condition)}
