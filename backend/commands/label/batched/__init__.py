"""Labelling through providers' batches."""
