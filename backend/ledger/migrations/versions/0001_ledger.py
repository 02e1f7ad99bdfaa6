"""The tables of the first release: a new ledger gets the newest ones at once (``Ledger.migrate``)."""

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change nothing, as no ledger is older."""
