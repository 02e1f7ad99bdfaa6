"""``camvo predict``: the predictions of a whole project."""
