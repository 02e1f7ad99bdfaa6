"""Policies: which models to ask, how to decide, what to learn."""
