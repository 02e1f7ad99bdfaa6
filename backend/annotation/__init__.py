"""One task's way from job to prediction."""
