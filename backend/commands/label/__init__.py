"""``camvo label`` and ``camvo teach``: label a whole dataset, and take people's labels of it back."""
