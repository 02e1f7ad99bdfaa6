"""The sentence embedder: the context of a task."""
