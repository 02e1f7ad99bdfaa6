"""The Oracle: the confidence of a set of arms, and the cheapest set that is confident enough."""
