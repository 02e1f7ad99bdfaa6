"""What all tables of the ledger share: their names for constraints, and two types of columns."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Integer, MetaData

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
