"""``camvo label``: label a whole file, DataFrame or project in this process."""
