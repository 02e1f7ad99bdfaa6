"""Controls whose votes are labelled spans of a text."""
