"""The control tags that can be voted on."""
