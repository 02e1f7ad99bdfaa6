"""``camvo replay`` and ``camvo synthetic``: what a setting would have cost, how right it would be."""
