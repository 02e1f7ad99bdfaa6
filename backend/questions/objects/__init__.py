"""The object tags of a label config: the data that annotators see, as plain text."""
