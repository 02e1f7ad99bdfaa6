"""Providers' batches in the ledger: jobs, their lines, and the tasks that wait for answers."""
