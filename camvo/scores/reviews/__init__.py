"""Which tasks people should label next, and what a label is worth."""
