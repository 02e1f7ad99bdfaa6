"""``camvo connect``, ``camvo disconnect`` and ``camvo predict``."""
