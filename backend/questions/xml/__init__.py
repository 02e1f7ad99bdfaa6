"""A label config as XML."""
