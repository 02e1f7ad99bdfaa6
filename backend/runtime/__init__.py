"""What a process needs to annotate tasks, whether it serves Label Studio or labels a file."""
