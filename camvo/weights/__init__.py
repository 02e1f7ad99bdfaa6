"""What each arm's vote weighs."""
