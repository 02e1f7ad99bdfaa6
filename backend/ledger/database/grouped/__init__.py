"""Reads and writes of one kind that share a transaction and its statements."""
