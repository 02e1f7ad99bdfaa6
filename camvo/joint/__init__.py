"""One model of votes: what they say about the label, and which vote is worth its price."""
