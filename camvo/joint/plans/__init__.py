"""Whom to ask: the best plan over the lattice, what it promises, and how it keeps to an allowance."""
