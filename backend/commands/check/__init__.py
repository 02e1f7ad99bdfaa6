"""``camvo check``: the configuration, one call to each model, and label configs."""
