"""``camvo accept``: predictions that become annotations without a human look."""
