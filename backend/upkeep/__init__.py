"""A ledger kept small and sound: pruned, verified, exported, copied."""
