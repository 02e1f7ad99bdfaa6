"""Policies from elsewhere, to compare with."""
