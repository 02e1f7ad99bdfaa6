"""What a job will cost, before it is run: from rounds that asked everyone, or from projects like it."""
