"""What can be said of a project's labels at the end, and the page that says it to somebody else."""
