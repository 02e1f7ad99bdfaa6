"""``camvo ledger``: commands that change what the ledger holds."""
