"""The Oracle: how confident the vote of a set of arms is, and the cheapest set that is confident enough."""
