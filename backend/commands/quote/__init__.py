"""``camvo quote``: the price of a job before it is run."""
