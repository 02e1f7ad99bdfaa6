"""Numerical tools that know nothing of models or votes."""
