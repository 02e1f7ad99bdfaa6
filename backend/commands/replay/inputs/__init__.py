"""What a replay is given: the table of votes, its prices and contexts, the order and the human labels."""
