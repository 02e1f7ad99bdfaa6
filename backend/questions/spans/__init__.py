"""Labelled spans of a text, and choices about them."""
