"""Old events as their sums, what can be pruned, and what checks read."""
