"""``camvo jobs``: providers' batches, what they cost, and how to cancel them."""
