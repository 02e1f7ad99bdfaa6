"""People as voters: how often each annotator is right, and what several of them say together."""
