"""CaMVo's algorithm: which models to ask, how to count their votes, what to learn from them."""
