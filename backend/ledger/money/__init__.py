"""Money in the ledger: accounts, reservations and what was used."""
