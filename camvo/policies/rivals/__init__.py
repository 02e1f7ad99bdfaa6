"""Policies from elsewhere that learn from human labels, to compare with."""
