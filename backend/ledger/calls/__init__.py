"""What the ledger holds about model calls: answers, claims on calls under way, and rates."""
