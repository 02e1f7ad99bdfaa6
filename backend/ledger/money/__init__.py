"""Money in the ledger: accounts, reservations and usage by model."""
