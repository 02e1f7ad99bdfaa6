"""What a question needs from its control tag, and the controls that several tags share."""
