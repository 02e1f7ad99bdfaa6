"""``camvo teach``: take people's labels of a file back."""
