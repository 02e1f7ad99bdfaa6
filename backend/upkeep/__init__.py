"""Keeping a ledger small and sound: pruning, verifying, exporting and copying it."""
