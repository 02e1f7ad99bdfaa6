"""What became of predictions in Label Studio."""
