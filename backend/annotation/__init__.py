"""Annotation: a job becomes a plan, the plan's models are asked, and the rounds become a prediction."""
