"""The tasks of a file or a project labelled in bulk, at once or in batches, and what that will cost."""
