"""The queue of jobs: which runs when, and what a request is answered."""
