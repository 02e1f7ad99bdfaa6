"""``camvo replay``: what a setting would have cost on a table of votes, and how right it would have been."""
