"""The XML of a label config."""
