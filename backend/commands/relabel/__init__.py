"""``camvo relabel``: labels changed without asking anybody twice."""
