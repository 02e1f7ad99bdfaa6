"""One call on its way: the short path through litellm, and the rest of a model that fails."""
