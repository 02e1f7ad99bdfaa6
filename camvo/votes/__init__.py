"""Aggregation: how the votes on one question become one answer."""
