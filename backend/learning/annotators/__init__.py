"""People as voters: what they answered, and how often each of them is right."""
