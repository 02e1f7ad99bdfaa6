"""``camvo connect`` and ``camvo disconnect``, and the tabs that they make."""
