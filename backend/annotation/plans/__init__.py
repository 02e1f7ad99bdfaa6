"""Planning: the contexts that a plan reads, the money that it keeps to, and the plan itself."""
