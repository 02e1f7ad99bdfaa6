"""How much each vote counts: agreement with the others, near-copies, and human labels."""
