"""Votes that come from providers' batches: a task is planned, its stage is written down, and it waits."""
