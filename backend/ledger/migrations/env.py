"""Run the migrations on the connection, and in the transaction, that ``Ledger.migrate`` opened."""

from __future__ import annotations

from alembic import context

from backend.ledger.database.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
