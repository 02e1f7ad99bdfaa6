"""Which tasks a human should label next, and ``camvo review``, which says so."""
