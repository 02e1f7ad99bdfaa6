"""What a job will cost: its tokens, and the policy's share of them by what is known of the project."""
