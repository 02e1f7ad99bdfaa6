"""Providers' batches: many requests at a lower price, answered within a day."""
