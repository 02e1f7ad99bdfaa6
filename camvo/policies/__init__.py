"""Policies: whom to ask, how to decide, what to learn."""
