"""The messages sent to models, and the votes read from their answers."""
