"""One model of votes: what votes say about the label, and which further vote is worth its price."""
