"""``camvo demo``: sixty short texts with known labels, sent through the real server."""
