"""People as voters: how often each annotator is right, and the label that several of them give together."""
