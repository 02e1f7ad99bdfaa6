"""Replay a policy on votes collected beforehand, and measure its cost and its accuracy."""
