"""Providers' batches: lines become jobs, jobs are sent and awaited, and what comes back is settled."""
