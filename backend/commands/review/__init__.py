"""``camvo review``: which tasks a human should label next."""
