"""What a policy would have cost on votes that were collected beforehand, and how right it would have been."""
