"""Numerical tools that know nothing about models or votes."""
