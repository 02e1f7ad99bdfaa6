"""``camvo ledger``: commands that change, check, export or copy what the ledger holds."""
