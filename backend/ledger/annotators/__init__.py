"""What the ledger knows of annotators: how often each is right, and the rounds that they judged."""
