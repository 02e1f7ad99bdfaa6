"""The sentence embedder, whose vectors are the contexts of tasks."""
