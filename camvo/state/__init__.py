"""What was learnt: a sum of contributions, each of which can be taken back."""
