"""``camvo replay``: what a setting would have cost on collected votes, and how right it would have been."""
