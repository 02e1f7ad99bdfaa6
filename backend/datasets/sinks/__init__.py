"""Sinks for labelled rows, one module for each format."""
