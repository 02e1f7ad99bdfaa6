"""``camvo demo``: a real server on a few texts, and real errors on handwritten digits."""
