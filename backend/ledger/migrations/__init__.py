"""Alembic's environment for the ledger; ``Ledger.migrate`` runs it, there is no ``alembic.ini``."""
