"""The instructions of a project: tried beside others, written as a codebook, refined."""
